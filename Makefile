# Each target creates what it needs: a virtual environment in .venv, with the versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
JS_TOOLS := typescript@5.9.3 prettier@3.10.1
JS := $(VENV)/js/node_modules/.bin
BROWSER_PACKAGES := chromium fonts-noto-core

.PHONY: help demo check test lint format catalogues browser trainers screenshots bench soak clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.base: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "nanoscope needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Installing nanoscope and what it needs into $(VENV) with pip: torch and about 55 other packages," \
		"1.1 GB on disk with a torch for CPUs, several GB with one for CUDA."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt --editable '.[train]'
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "Installing what the tests need into $(VENV) with pip: about 75 packages, 0.8 GB on disk."
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(VENV)/.base  ## the one-minute tour: prepare, train, explain, sample, report
	$(BIN)/nanoscope demo

check: lint  ## lint, types and the quick tests, in a minute: for work in progress
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow and not soak"

test: lint browser  ## lint, types and all tests
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=15

lint: $(VENV)/.dev  ## ruff, mypy, and the types of the pages' scripts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	@if command -v npm >/dev/null && { test -x $(JS)/prettier || npm install --silent --no-fund --no-audit --prefix $(VENV)/js $(JS_TOOLS) >/dev/null 2>&1; }; \
	then $(JS)/tsc -p jsconfig.json && $(JS)/prettier --check --log-level warn 'src/nanoscope/views/page/*.js'; \
	else echo "The pages' scripts are not checked: that needs npm and, once, a network."; fi

# The messages of the code, put into the catalogues of the other languages: what is new there waits for a translation.
LOCALE := src/nanoscope/words/locale
catalogues: $(VENV)/.dev  ## update and compile the translations
	@mkdir -p build
	$(BIN)/pybabel -q extract -F babel.cfg --no-location --omit-header -o build/nanoscope.pot src/nanoscope
	$(BIN)/pybabel -q update -D nanoscope -i build/nanoscope.pot -d $(LOCALE) --no-fuzzy-matching --ignore-obsolete --ignore-pot-creation-date -w 110
	$(BIN)/pybabel -q compile -D nanoscope -d $(LOCALE)

# Chromium for tests/browser, and fonts for Arabic and Hindi. Without them those tests are skipped.
browser:
	@if command -v chromium || command -v chromium-browser || command -v google-chrome; then exit 0; fi >/dev/null; \
	if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		echo "Installing $(BROWSER_PACKAGES) and their dependencies with apt-get, about 0.5 GB on disk."; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -qq --no-install-recommends $(BROWSER_PACKAGES) && exit 0; \
	fi; \
	echo "Chromium is missing and can't be installed from here, so the browser tests are skipped." \
		"To run them: sudo apt-get install $(BROWSER_PACKAGES)"

# Other trainers, without what they share with nanoscope (torch and numpy).
TRAINER_PACKAGES := keras absl-py namex h5py optree ml-dtypes pytorch-lightning lightning-utilities torchmetrics \
	transformers accelerate huggingface_hub hf-xet tokenizers safetensors regex requests urllib3 idna certifi \
	charset_normalizer tqdm pyyaml filelock packaging fsspec psutil

$(VENV)/.trainers: $(VENV)/.dev
	@echo "Installing Keras, Lightning and Hugging Face's Trainer into $(VENV)/trainers with pip: 0.3 GB on disk."
	$(PIP) install --quiet --no-deps --upgrade --target $(VENV)/trainers $(TRAINER_PACKAGES)
	@touch $@

trainers: $(VENV)/.trainers  ## small real runs of other trainers, and what explain reads in them
	NANOSCOPE_TRAINERS=$(abspath $(VENV)/trainers) $(BIN)/python -m pytest tests/trainers

screenshots: $(VENV)/.dev browser  ## the README's pictures, and build/gallery: every page in every language, theme and width
	NANOSCOPE_SCREENSHOTS=docs/images $(BIN)/python -m pytest tests/browser -k screenshots
	NANOSCOPE_SCREENSHOTS=build $(BIN)/python -m pytest tests/browser/test_gallery.py

format: $(VENV)/.dev  ## format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/.base  ## this machine's speed; against nanoGPT: make bench NANOGPT=path/to/nanoGPT [ROWS="step sample"]
ifdef NANOGPT
	$(BIN)/python -m benchmarks.nanogpt --nanogpt $(NANOGPT) $(if $(ROWS),--only $(ROWS)) --markdown benchmarks/RESULTS.md
else
	$(BIN)/nanoscope tune --bench
endif

soak: $(VENV)/.dev  ## slow checks (half an hour): tests of minutes, memory of preparing 2 GB of text, 150 × kill -9, power cuts, errors
	$(BIN)/python -m pytest -m soak
	$(BIN)/python benchmarks/prepare_memory.py --gigabytes 2
	$(BIN)/python benchmarks/soak.py
	$(BIN)/python benchmarks/power_cuts.py --cuts 240
	$(BIN)/python benchmarks/faults.py --errors 100 --damages 100

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -exec rm -rf {} +
