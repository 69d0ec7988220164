# The verbs of this project; `.ci/run` uses the same ones. `make` alone lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Workers of pytest-xdist, and anything else for pytest: make test ARGS="-k reset -x"
JOBS ?= 2
ARGS ?=

# One stamp for each set of packages: newer than pyproject.toml means that nothing is to be done.
ALL := $(VENV)/.ready-all
DEV := $(VENV)/.ready-dev
DOCS := $(VENV)/.ready-docs

.PHONY: help demo test test-unit test-integration check format crd docs clean

help:  ## List the verbs
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(ALL)  ## Benchmark two simulated servers on an embedded cluster, in about a minute
	@$(BIN)/tare demo $(ARGS)

test: $(DEV)  ## Run every test that needs no other cluster than the embedded one
	@$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

test-unit: $(DEV)  ## Run the unit tests
	@$(BIN)/python -m pytest -n $(JOBS) tests/unit $(ARGS)

test-integration: $(DEV)  ## Run the tests on the embedded cluster
	@$(BIN)/python -m pytest -n $(JOBS) $(wildcard tests/integration tests/conformance) $(ARGS)

check: $(DEV)  ## Lint, check the format, the types and the layers
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/mypy docs/generate.py
	@$(BIN)/lint-imports

format: $(DEV)  ## Format the code and mend what the linter can
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format

crd: $(ALL)  ## Write crds/ from the models
	@$(BIN)/tare crd > crds/benchmarkruns.tare.dev.yaml

docs: $(DOCS)  ## Write the generated reference and build the site
	@$(BIN)/python docs/generate.py
	@$(BIN)/mkdocs build --quiet --strict

clean:  ## Remove the environment, caches and what was built
	@rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist site
	@find operator tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "Tare needs Python 3.11 or newer; $(PYTHON) is older or missing (as in: make PYTHON=python3.12 demo)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "This Python cannot make virtual environments: apt install python3-venv" >&2; exit 1; }
	@echo "Making $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)

$(ALL): pyproject.toml | $(BIN)/python
	@echo "Installing Tare into $(VENV) (once, about half a minute) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'  # knows --group
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]'
	@touch $@

$(DEV): $(ALL)
	@echo "Installing the tools of developers into $(VENV) (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev
	@touch $@

$(DOCS): $(ALL)
	@echo "Installing mkdocs into $(VENV) (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group docs
	@touch $@
