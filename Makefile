# Two commands do everything: `make demo` and `make test`. Both build the virtual environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
STAMP_ALL := $(VENV)/.installed-all
JOBS ?= 2

.PHONY: benchmark demo fuzz test test-slow setup lint format clean

demo: $(STAMP)
	$(BIN)/bopl demo

test: $(STAMP_ALL) lint
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow"

test-slow: $(STAMP_ALL)
	$(BIN)/python -m pytest -m slow

# The tests by example, with examples that no run before had.
fuzz: $(STAMP_ALL)
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow" --hypothesis-profile fuzz -k "$(TESTS)"

# About seven minutes, with nothing else running.
benchmark: $(STAMP_ALL)
	$(BIN)/python benchmarks/engine.py --rounds 8 --limit 45

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The package with its development tools: what the demo needs.
$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

# All extras as well, for tests and benchmarks. torch is pinned and goes first, so that nothing pulls a build of several GB in its place.
setup: $(STAMP_ALL)
$(STAMP_ALL): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --editable ".[benchmark,dev,deep]"
	touch $(STAMP) $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
