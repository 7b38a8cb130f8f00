# Two commands do everything: `make demo` and `make test`. Both build the virtual environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
STAMP_ALL := $(VENV)/.installed-all
JOBS ?= 2

.PHONY: benchmark demo docs docs-refresh fuzz fuzz-examples kernels package test test-slow setup lint format clean

demo: $(STAMP)
	$(BIN)/bopl demo

test: $(STAMP_ALL)
	$(MAKE) --no-print-directory --jobs $(JOBS) kernels lint docs
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

# Compiled code that tests share, where it is not there yet.
kernels: $(STAMP_ALL)
	$(BIN)/python tests/compile_kernels.py

# The site, with every warning an error: open build/site/index.html.
docs: $(STAMP_ALL)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# What is shown in the pages, made again: figures, output of their Python blocks, the recording of the demo.
docs-refresh: $(STAMP_ALL)
	$(BIN)/python docs/plots.py
	$(BIN)/python docs/run_pages.py
	$(BIN)/python docs/record_demo.py

test-slow: $(STAMP_ALL)
	$(BIN)/python -m pytest -m slow

# Files that others may have spoiled: policies, checkpoints, logs of every format, frames, sparse matrices. FILES=2000 is quick.
FILES ?= 50000
SEED ?= 0
fuzz: $(STAMP_ALL)
	$(BIN)/python tests/fuzz/run.py --files $(FILES) --seed $(SEED) --jobs $(JOBS)

# The tests by example, with examples that no run before had.
fuzz-examples: $(STAMP_ALL)
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow" --hypothesis-profile fuzz -k "$(TESTS)"

# Wheel and source archive, and the wheel, built from that archive, in an environment without the extras.
package: $(STAMP)
	rm -rf build/package
	mkdir -p build
	$(BIN)/python -m build --outdir build/package . >build/package.log 2>&1 || (cat build/package.log; exit 1)
	$(PYTHON) -m venv build/package/bare
	build/package/bare/bin/python -m pip install --quiet build/package/*.whl
	cd build/package && bare/bin/python -P ../../.ci/try_package.py

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
	$(BIN)/python -m pip install --quiet --editable ".[benchmark,dev,deep,docs]"
	touch $(STAMP) $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
