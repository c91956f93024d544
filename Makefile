# `make` lists the targets. Each sets up what it needs: a .venv with everything installed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Processes of tests, each with a Spark of its own.
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test-fast test test-all test-faults check format coverage docs bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## see it work: two fraud rules over a generated stream of payments, and a kill -9
	@$(BIN)/holdfast demo

test-fast: $(READY) ## run the tests that need no Spark
	@$(BIN)/python -m pytest --tier fast -n auto

test: $(READY) check ## run all that must pass before a change lands
	@$(BIN)/python -m pytest --tier test -n $(WORKERS)

test-all: $(READY) check ## run everything at full length, for the night: hours
	@$(BIN)/python -m pytest --tier all -n $(WORKERS) --timeout 7200

test-faults: $(READY) ## run the crash tests alone, with the seeds in HOLDFAST_FAULT_SEED
	@$(BIN)/python -m pytest --tier test -n $(WORKERS) tests/fault

check: $(READY) ## lint, format and types, without tests
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy --config-file tests/mypy.ini

format: $(READY) ## format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

coverage: $(READY) ## measure what the tests without Spark cover of model and engine; below the floor it fails
	@$(BIN)/python -m pytest -n 2 --dist loadfile --cov -k "not spark-" tests/unit tests/property tests/contract

docs: $(READY) ## build the site of guides and reference, into build/docs
	@$(BIN)/python scripts/build_docs.py

bench: $(READY) ## measure the engine beside a hand-written loop
	@$(BIN)/python benchmarks/engine.py

clean: ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist src/*.egg-info

$(READY): pyproject.toml scripts/preflight
	@sh scripts/preflight "$(PYTHON)"
	@echo "Setting up $(VENV) (once; a minute or so) ..."
	@"$(PYTHON)" -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@
