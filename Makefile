# Each target creates what it needs: a virtual environment in .venv, with the versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help demo test lint format browser screenshots bench soak clean

help:  ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.base: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "nanoscope needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt --editable '.[web]'
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(VENV)/.base  ## the one-minute tour: prepare, train, explain, sample, report
	$(BIN)/nanoscope demo

test: lint browser  ## lint, types and all tests
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=15

lint: $(VENV)/.dev  ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# A browser for tests/browser, and letters for Arabic and Hindi; without one those tests are skipped and say so.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		{ command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && apt-get update -qq && \
		  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-noto-core; } || \
		echo "No Chromium here, and it cannot be installed (Debian: sudo apt-get install chromium fonts-noto-core):" \
		     "the tests of report and watch in a browser will be skipped."

screenshots: $(VENV)/.dev browser  ## the pictures of the README, by the tests that look at those pages
	NANOSCOPE_SCREENSHOTS=docs/images $(BIN)/python -m pytest tests/browser -k screenshots

format: $(VENV)/.dev  ## put the code into its usual shape
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/.base  ## speed against nanoGPT, side by side: make bench NANOGPT=path/to/nanoGPT [ROWS="step sample"]
	$(BIN)/nanoscope bench $(if $(NANOGPT),--nanogpt $(NANOGPT)) $(if $(ROWS),--only $(ROWS)) --markdown benchmarks/RESULTS.md

soak: $(VENV)/.dev  ## slow checks (half an hour): memory of preparing 2 GB of text; 150 times kill -9 on training runs
	$(BIN)/python benchmarks/prepare_memory.py --gigabytes 2
	$(BIN)/python benchmarks/soak.py --report benchmarks/FAULTS.md

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -exec rm -rf {} +
