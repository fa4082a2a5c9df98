# Each target sets up what it needs in .venv and then does its job; a second call is quick.
# PYTHON names the interpreter (3.11 or later) that .venv is made from.

.DEFAULT_GOAL := help
.PHONY: help demo test test-targets check format bench bench-quick conformance docs check-wheels clean

ifeq ($(OS),Windows_NT)
VENV_PYTHON := .venv/Scripts/python.exe
else
VENV_PYTHON := .venv/bin/python
endif

PIP_INSTALL := $(VENV_PYTHON) -m pip install --quiet --disable-pip-version-check

# Two test processes, whatever the machine: compilation is most of a test's time, and each process
# starts a thread pool of its own.
PYTEST_FLAGS ?= -n 2 --dist worksteal

# Arguments for the demo, as in: make demo ARGS="--image my-digit.png"
ARGS ?=

# What a benchmark writes, besides the table.
BENCH_OUT ?= bench/out

help:
	@echo "make demo          train a small network on real handwritten digits"
	@echo "make test          run the tests (PYTEST_FLAGS='-k view' to choose)"
	@echo "make test-targets  the tests of what depends on the processor, for others that run here"
	@echo "make check         format, lint, types, import direction, size budgets, doctests"
	@echo "make format        let ruff rewrite the sources"
	@echo "make bench         time torpor against PyTorch, JAX and others (ARGS='--only matmul')"
	@echo "make bench-quick   the same in under three minutes: fewer workloads, fewer rounds"
	@echo "make conformance   compare PyTorch's operator samples (ARGS='--only conv' to choose)"
	@echo "make docs          the home page and the reference, into build/site"
	@echo "make check-wheels  ask the package index for wheels on every platform"
	@echo "make clean         remove .venv and all caches in this folder"

demo: .venv/core.stamp
	$(VENV_PYTHON) -m torpor demo $(ARGS)

test: .venv/dev.stamp
	$(VENV_PYTHON) -m pytest $(PYTEST_FLAGS)

test-targets: .venv/dev.stamp
	$(VENV_PYTHON) tools/check_targets.py $(PYTEST_FLAGS)

check: .venv/check.stamp
	$(VENV_PYTHON) tools/check.py

format: .venv/dev.stamp
	$(VENV_PYTHON) -m ruff check --fix src tests tools bench conformance examples
	$(VENV_PYTHON) -m ruff format src tests tools bench conformance examples

bench: .venv/bench.stamp
	$(VENV_PYTHON) -m bench --json $(BENCH_OUT)/full.json --plots $(BENCH_OUT) $(ARGS)

bench-quick: .venv/bench.stamp
	$(VENV_PYTHON) -m bench --quick --json $(BENCH_OUT)/quick.json --plots $(BENCH_OUT) $(ARGS)

conformance: .venv/conformance.stamp
	$(VENV_PYTHON) -m conformance $(ARGS)
	$(VENV_PYTHON) -m conformance.modules
	$(VENV_PYTHON) -m conformance.refusals
	$(VENV_PYTHON) -m conformance.suites
	$(VENV_PYTHON) -m conformance.standard
	$(VENV_PYTHON) -m conformance.differences
	$(VENV_PYTHON) -m conformance.programs
	$(VENV_PYTHON) -m conformance.program_passes

docs: .venv/site.stamp
	NO_MKDOCS_2_WARNING=1 $(VENV_PYTHON) -m mkdocs build --quiet
	@echo "python -m http.server -d build/site shows it at http://localhost:8000"

check-wheels: .venv/dev.stamp
	$(VENV_PYTHON) tools/check_wheels.py

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist

# Some distributions ship Python without ensurepip; there the outer pip puts one into .venv.
.venv/made.stamp:
	@set -e; \
	for python in $(PYTHON) python3 python python3.13 python3.12 python3.11; do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "making .venv with $$python"; \
	    "$$python" -m venv --clear .venv >/dev/null 2>&1 || { \
	      "$$python" -m venv --clear --without-pip .venv; \
	      "$$python" -m pip --python $(VENV_PYTHON) install --quiet pip; }; \
	    touch $@; exit 0; \
	  fi; \
	done; \
	echo "torpor needs Python 3.11 or later; set PYTHON=/path/to/python3.11" >&2; exit 1

.venv/core.stamp: pyproject.toml | .venv/made.stamp
	$(PIP_INSTALL) --editable .
	@touch $@

.venv/dev.stamp: pyproject.toml | .venv/made.stamp
	$(PIP_INSTALL) --editable ".[dev]"
	@touch .venv/core.stamp $@

.venv/check.stamp: pyproject.toml | .venv/made.stamp
	$(PIP_INSTALL) --editable ".[dev,cuda]"
	@touch .venv/core.stamp .venv/dev.stamp $@

# Peers are big: the first call downloads several hundred megabytes.
.venv/bench.stamp: pyproject.toml | .venv/made.stamp
	$(PIP_INSTALL) --editable ".[bench]"
	@touch .venv/core.stamp $@

.venv/conformance.stamp: pyproject.toml | .venv/made.stamp
	$(PIP_INSTALL) --editable ".[conformance]"
	@touch .venv/core.stamp $@

.venv/site.stamp: pyproject.toml | .venv/made.stamp
	$(PIP_INSTALL) --editable ".[site]"
	@touch .venv/core.stamp $@
