# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# pip installs torch (it sees the local CPU wheel where there is one); uv, where present, does the rest faster.
UV     := $(shell command -v uv 2>/dev/null)
INSTALL = $(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip install --quiet)
JOBS   ?= auto

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-lowest test-wheel campaign chromium lint docs bench reproduce reproduce-quick clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "make %-15s %s\n", $$1, $$2}'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/python
	$(INSTALL) -e '.[formula]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(INSTALL) -c constraints.txt -e '.[all,dev,docs]'
	$(INSTALL) -c constraints.txt --no-deps easyfsl
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core ## Create .venv and run the quickstart on the embedded bank (about a minute)
	$(BIN)/firthshot run quickstart --out runs/quickstart
	@echo
	@echo "Open runs/quickstart/report.html. To go on: . $(BIN)/activate, then firthshot presets"

test: $(VENV)/.dev lint chromium ## Create .venv, lint, check types and run the tests
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow"

# The report's page is tested in a real browser. Root on Debian gets one; elsewhere those tests are skipped with a sentence.
chromium:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! command -v chromium >/dev/null; then \
	  echo "Installing Chromium for the browser tests"; \
	  { apt-get install -y --no-install-recommends chromium || { apt-get update && apt-get install -y --no-install-recommends chromium; }; } >/dev/null 2>&1 \
	    || echo "Chromium cannot be installed: the browser tests are skipped."; \
	fi

test-slow: $(VENV)/.dev ## Run the long and the real-data checks
	$(BIN)/python -m pytest -n $(JOBS) -m slow

# Test tools and torch, the tests' reference, are those of `make test`; everything else is as old as allowed,
# and old libraries say of new ones that they are deprecated.
LOWEST := build/lowest
OLDEST_PYTHON ?= $(or $(shell command -v python3.11),$(PYTHON))
test-lowest: ## Run engine, estimators, banks and experiments on the lowest versions of pyproject.toml
	rm -rf $(LOWEST)
	$(OLDEST_PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python scripts/lowest_versions.py hdf5 formula dask > $(LOWEST)/pins.txt
	$(LOWEST)/bin/python -m pip install --quiet -c constraints.txt -c $(LOWEST)/pins.txt torch \
	  -e '.[hdf5,formula,dask]' hypothesis mpmath pytest pytest-xdist
	NUMBA_CACHE_DIR=$(abspath $(LOWEST))/kernels $(LOWEST)/bin/python -m pytest -n $(JOBS) -m "not slow" \
	  -W ignore::DeprecationWarning \
	  tests/engine tests/estimators tests/banks tests/experiments

test-wheel: ## Build the wheel, install it alone, run the quickstart and an estimator from it
	$(PYTHON) scripts/check_wheel.py

# Hours; may be stopped at any moment, the same command goes on.
campaign: $(VENV)/.dev ## Kill runs 1,000 times, try 100,000 mutated inputs, write docs/robustness.md
	$(BIN)/python -m tests.campaign kills
	$(BIN)/python -m tests.campaign inputs
	$(BIN)/python -m tests.campaign table --folder runs/campaign

WHAT ?= engine estimators jeffreys calibration sweep
bench: $(VENV)/.dev ## Measure our speed against the plain way: all benches, or WHAT=engine
	@set -e; for what in $(WHAT); do $(BIN)/python -m benchmarks $$what; done

# Both may be stopped at any moment; the same command goes on. WORKERS=1 leaves a core to others.
WORKERS ?= 2
reproduce: $(VENV)/.core ## Rerun the paper on our banks (hours), write studies/reproduction/kept and its page
	$(BIN)/python -m studies.reproduction run --workers $(WORKERS)
	$(BIN)/python -m studies.reproduction page

reproduce-quick: $(VENV)/.core ## The same with a tenth of the trials, into runs/reproduction-tenth alone
	$(BIN)/python -m studies.reproduction run --tenth --workers $(WORKERS)
	$(BIN)/python -m studies.reproduction page --tenth

# The quick tests build it too, so that no page or link breaks unnoticed. SPHINX="-t online" links to other projects.
docs: $(VENV)/.dev ## Build the documentation into build/docs, warnings are errors
	$(BIN)/python -m sphinx -b html -c docs -d build/doctrees -W --keep-going -q $(SPHINX) . build/docs
	@echo "Open build/docs/index.html"

lint: $(VENV)/.dev ## Lint with ruff, check types with mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean: ## Remove the environment and all caches
	rm -rf $(VENV) $(LOWEST) .mypy_cache .ruff_cache .pytest_cache
