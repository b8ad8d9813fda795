# Commands of this project. `make help` lists them.
PYTHON ?= python3
JOBS ?= 4
UPGRADE ?=
ALL ?=

BIN := .venv/bin
READY := .venv/.ready
# Tests start hundreds of processes. Bytecode is written, because otherwise each process would compile all modules.
# Java uses only its fast compiler: in a run of minutes, Cassandra would spend half its CPU time on optimizing code.
PYTEST := env -u PYTHONDONTWRITEBYTECODE JAVA_TOOL_OPTIONS=-XX:TieredStopAtLevel=1 $(BIN)/python -m pytest --no-header -n $(JOBS) --dist loadfile --no-loadscope-reorder

# Python compiles the modules of packages when they are first imported: most of them never are.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

COMPILE = env -u PIP_FIND_LINKS -u PIP_EXTRA_INDEX_URL CUSTOM_COMPILE_COMMAND="make lock" \
  build/lock/bin/pip-compile $(if $(UPGRADE),--upgrade)

.DEFAULT_GOAL := help
.PHONY: help setup demo cluster test check prove bench bench-peers pictures lock clean quick types

help: ## list these commands
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## create .venv with all pinned dependencies; runs again when a pin changes

demo: setup ## run the demo in a browser: mentions of a celebrity with 200 million followers
	@$(BIN)/notifier demo

cluster: setup ## start Kafka, Cassandra and Valkey on this machine with Java 17 and Maven; then run: notifier up --profile cluster
	@$(BIN)/notifier services up

test: quick ## test every promise: format, lint, imports, tests and types; ALL=1 runs all variations too, as CI does
	@echo "== tests, and types"
	@mkdir -p build
	@$(BIN)/mypy >build/types.log 2>&1 & types=$$!; \
	  $(PYTEST) $(if $(filter 1,$(ALL)),,-m "not prove and not thorough") --junit-xml=build/junit.xml; tests=$$?; \
	  wait $$types; types=$$?; cat build/types.log; exit $$((tests | types))

prove: setup ## run the long tests (an hour or more): more seeds, faults at more calls, storms with faults, chaos scenarios on real engines
	@mkdir -p build
	@$(PYTEST) -m prove --junit-xml=build/prove.xml
	@$(BIN)/python -m benchmarks chaos

check: quick types ## run format, lint, imports, types and the unit tests
	@echo "== unit tests"
	@$(PYTEST) $(wildcard tests/unit tests/repo)

bench: setup ## run all benchmarks and rewrite docs/benchmarks.md; QUICK=1 takes fewer rounds
	@$(BIN)/python -m benchmarks.report $(if $(QUICK),--quick)

bench-peers: setup ## run the benchmarks against other libraries, which are installed in build/peers
	@$(BIN)/python -m benchmarks.report peers $(if $(QUICK),--quick)

pictures: setup ## take the documentation's screenshots of the demo again, with all 200 million users
	@PICTURES=$(CURDIR)/docs/pictures $(BIN)/python -m pytest --no-header tests/browser/test_demo_page_storms_and_faults.py

lock: build/lock/ready ## resolve the pins in requirements/ again; UPGRADE=1 takes newer versions
	@$(COMPILE) -o requirements/run.txt --extra cluster pyproject.toml requirements/other-platforms.in
	@$(COMPILE) -o requirements/dev.txt -c requirements/run.txt --extra cluster --extra firebase-admin --extra import --extra dev pyproject.toml requirements/other-platforms.in
	@for peer in build stream_framework stream_framework_page celery redis aioapns firebase_admin pywebpush; do $(COMPILE) -o benchmarks/peers/pins/$$peer.txt requirements/peers/$$peer.in || exit; done

clean: ## remove the environment and all build results
	@rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

quick: setup
	@echo "== format"
	@$(BIN)/ruff format --check .
	@echo "== lint"
	@$(BIN)/ruff check .
	@echo "== imports"
	@$(BIN)/lint-imports --no-logo

types: setup
	@echo "== types"
	@$(BIN)/mypy

$(READY): requirements/dev.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found. Set another one: make setup PYTHON=/path/to/python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is required, but $(PYTHON) is $$($(PYTHON) --version 2>&1). Set another one: make setup PYTHON=python3.12"; exit 1; }
	@echo "== setup: $$($(PYTHON) --version) into .venv"
	@$(PYTHON) -m venv .venv
	@$(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	@$(PIP_INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

build/lock/ready:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	  { echo "Resolve the pins with the oldest supported Python, so that they work for all: make lock PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv build/lock
	@build/lock/bin/pip install --quiet --disable-pip-version-check pip-tools==7.6.2
	@touch $@
