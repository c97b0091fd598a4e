# Each target creates what it needs: a virtual environment in .venv, with the versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help demo test lint format bench soak clean

help:  ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.base: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "nanoscope needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(VENV)/.base  ## the one-minute tour: prepare, train, explain, sample
	$(BIN)/nanoscope demo

test: lint  ## lint, types and all tests
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=15

lint: $(VENV)/.dev  ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

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
