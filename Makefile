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
NAME ?= client

# One stamp for each set of packages: newer than pyproject.toml means that nothing is to be done.
ALL := $(VENV)/.ready-all
DEV := $(VENV)/.ready-dev
DOCS := $(VENV)/.ready-docs

# How images are built, listed and named; .ci/run has no docker and says so here.
BUILD ?= docker build --quiet --tag
LIST ?= docker images
BASE ?= python:3.13-slim
TAG ?= dev
# Prints the manifest of N vLLM replicas in a namespace.
VLLM ?= ../shared/servers/vllm/manifest

.PHONY: help demo test test-truth test-fast test-cluster test-e2e test-vllm test-vllm-cluster fuzz bench check format generate docs image e2e-kind clean

help:  ## List the verbs
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(ALL)  ## Benchmark two simulated servers on an embedded cluster, in about a minute
	@$(BIN)/tare demo $(ARGS)

test: $(DEV)  ## Run every test that needs no other cluster than the embedded one
	@$(BIN)/python -m pytest -n $(JOBS) $(ARGS)
	@echo "Not run: what needs helm, Prometheus or a real cluster (make test-cluster), a vLLM (make test-vllm), or numba (make test-fast)."

test-fast: $(DEV)  ## Compare compiled simulations with plain ones; installs numba (the extra fast) first
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fast]'
	@$(BIN)/python -m pytest tests/fast $(ARGS)

test-cluster: $(DEV)  ## Run what needs more: helm, Prometheus, and the cluster of KUBECONFIG with `make image` on it
	@test -n "$$KUBECONFIG" || { echo "No cluster: set KUBECONFIG, then make test-cluster" >&2; exit 2; }
	@$(BIN)/python -m pytest tests/chart tests/dashboards $(ARGS)
	@TARE_TEST_CLUSTER=1 $(BIN)/python -m pytest -n $(JOBS) tests/conformance $(ARGS)
	@TARE_TEST_CLUSTER=1 $(BIN)/python -m pytest tests/integration $(ARGS)
	@TARE_TEST_CLUSTER=1 $(BIN)/python -m pytest tests/e2e $(ARGS)

test-e2e: $(DEV)  ## Install the chart on the cluster of KUBECONFIG and run the end-to-end tests
	@test -n "$$KUBECONFIG" || { echo "No cluster: set KUBECONFIG, then make test-e2e" >&2; exit 2; }
	@TARE_TEST_CLUSTER=1 $(BIN)/python -m pytest tests/e2e $(ARGS)

test-vllm: $(DEV)  ## Measure two real vLLM servers at TARE_VLLM_URLS (docs/how-to/real-vllm.md)
	@$(BIN)/python -m pytest tests/real $(ARGS)

test-vllm-cluster: $(DEV)  ## Measure two real vLLM pods by the installed operator, on the cluster of KUBECONFIG
	@$(VLLM) 2 tare-vllm | kubectl apply -f -
	@kubectl --namespace tare-vllm rollout status deployment/vllm --timeout=300s
	@TARE_TEST_CLUSTER=1 TARE_VLLM_NAMESPACE=tare-vllm $(BIN)/python -m pytest tests/real/test_vllm_cluster.py $(ARGS); \
	  code=$$?; kubectl delete namespace tare-vllm --wait=false; exit $$code

test-truth: $(DEV)  ## Hold measured times against a scripted server's own clock, and against predictions, on a calm machine
	@$(BIN)/python -m pytest tests/truth $(ARGS)

fuzz: $(DEV)  ## Read a million odd answers (ARGS="--seed 1 --count 1000" for fewer)
	@PYTHONPATH=tests $(BIN)/python -m fuzz.main $(ARGS)

bench: $(DEV)  ## Run the bench of NAME=client, operator_scale … (tests/bench/README.md) on a quiet machine
	@PYTHONPATH=tests $(BIN)/python -m bench.$(NAME) $(ARGS)

check: $(DEV)  ## Lint, check the format, the types and the layers
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/mypy docs/generate.py
	@$(BIN)/mypy charts/generate.py
	@$(BIN)/lint-imports

format: $(DEV)  ## Format the code and mend what the linter can
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format

generate: $(ALL)  ## Write what follows from the code: crds/, the chart's copies, docs/reference/
	@$(BIN)/tare crd > crds/benchmarkruns.tare.dev.yaml
	@$(BIN)/python charts/generate.py
	@$(BIN)/python docs/generate.py

docs: $(DOCS)  ## Build the site
	@$(BIN)/mkdocs build --quiet --strict

image:  ## Build the images of worker and operator and print their sizes
	@for role in worker operator; do \
	  $(BUILD) localhost/tare-$$role:$(TAG) . --target $$role --build-arg BASE=$(BASE); done
	@for name in $(BASE) localhost/tare-worker:$(TAG) localhost/tare-operator:$(TAG); do \
	  $(LIST) --format "$$name: {{.Size}}" $$name; done

e2e-kind: image $(DEV)  ## Run the end-to-end tests on a kind cluster made for them
	@kind create cluster --name tare-e2e --kubeconfig .cache/kind
	@kind load docker-image --name tare-e2e localhost/tare-worker:$(TAG) localhost/tare-operator:$(TAG)
	@KUBECONFIG=.cache/kind TARE_TEST_CLUSTER=1 $(BIN)/python -m pytest tests/e2e $(ARGS); \
	  code=$$?; kind delete cluster --name tare-e2e; exit $$code

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
