# Every verb works on a machine with Python >= 3.11 and make: what it needs, it installs into .venv first.
# PYTHON= chooses the interpreter that makes .venv; ARGS= goes on to the tool behind the verb.

PYTHON ?= python3
ARGS ?=
TARGET ?=

BIN := .venv/bin
RUNTIME := .venv/runtime.stamp
DEV := .venv/dev.stamp
PYTEST := $(BIN)/python -m pytest
NODE := $(patsubst %/package-lock.json,%/node_modules/.package-lock.json,$(wildcard compat_tests/*/package-lock.json))

.DEFAULT_GOAL := help
.PHONY: help install run test test-slow check fmt lint types compat bench profile descriptors rules clean

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(DEV) ## make .venv with the package and every development tool

run: $(RUNTIME) ## serve on localhost:8085 (ARGS="--host-port :9000 --log-level debug")
	$(BIN)/python -m emulator $(ARGS)

test: $(DEV) $(NODE) ## every suite but the slow tests, engine branches covered to 100 % (ARGS="-k lease" runs a part, ungated)
ifeq ($(strip $(ARGS)),)
	$(PYTEST) tests -m "not slow" -n 2 --cov=emulator/engine --cov-branch --cov-fail-under=100
	$(PYTEST) compat_tests -m "not slow" -n 2
else
	$(PYTEST) -m "not slow" $(ARGS)
endif

test-slow: $(DEV) $(NODE) ## the tests that take long; having none is no failure
	$(PYTEST) tests compat_tests -m slow -n 2 $(ARGS) || [ $$? -eq 5 ]

check: lint types test ## what has to pass before a commit

fmt: $(DEV) ## format the code and apply safe fixes
	$(BIN)/ruff check --fix-only $(ARGS) .
	$(BIN)/ruff format $(ARGS) .

lint: $(DEV) ## ruff: rules and formatting
	$(BIN)/ruff check $(ARGS) .
	$(BIN)/ruff format --check $(ARGS) .

types: $(DEV) ## mypy, strict
	$(BIN)/mypy $(ARGS)

compat: $(DEV) $(NODE) ## the real client libraries against a server (TARGET=official: against Google's emulator)
	$(PYTEST) compat_tests -m "not slow" $(if $(TARGET),--target $(TARGET)) $(ARGS)

bench: $(DEV) ## load generator and side-by-side comparison
	$(BIN)/python -m bench $(ARGS)

profile: $(DEV) ## show where the time of a row of make bench goes (ROW=unary-fresh)
	$(BIN)/python -m bench.profile $(or $(ROW),unary-constant) $(ARGS)

descriptors: $(DEV) ## rebuild the API descriptors from the installed client library (ARGS=--check compares)
	$(BIN)/python -m tests.tools.descriptors $(ARGS)

rules: $(DEV) ## write into docs/rules.toml which tests prove which rule
	$(BIN)/python -m tests.tools.rules --write

clean: ## remove .venv and everything that the verbs made
	rm -rf .venv .cache build dist bench/results compat_tests/*/node_modules .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv .venv

$(RUNTIME): pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

# pip reads dependency groups from 25.1 on; the one that venv installs is often older.
$(DEV): pyproject.toml $(RUNTIME)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

# Without npm the suites run all the same, and say which client they miss.
$(NODE): %/node_modules/.package-lock.json: %/package-lock.json
	@! command -v npm >/dev/null || { cd $* && npm ci --silent && touch node_modules/.package-lock.json; }
