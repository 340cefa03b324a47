# The first target that needs it creates .venv and installs the pinned dependencies (about 1.8 GB);
# afterwards that step is skipped until pyproject.toml or constraints.txt changes.
#
#   make install      create .venv and install (the others do it when it is needed)
#   make demo         both seed kernels on every target, on the emulated device
#   make test         all tests except the slow sweeps
#   make test-quick   the tests for while you work (two minutes)
#   make test-slow    the slow sweeps
#   make check        lint, formatting, types
#   make format       format the code, and mend what lint can
#   make bench        benchmarks of compiler, emulated device and kernel selection
#   make clean        remove .venv and caches
#
# PYTHON=python3.12 chooses the interpreter, WORKERS=4 the number of test processes.

PYTHON ?= python3
WORKERS ?= auto
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help install demo test test-quick test-slow check format bench clean

help:
	@sed -n 's/^#   //p' Makefile

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@command -v "$(PYTHON)" >/dev/null 2>&1 || { \
	  echo "$(PYTHON) was not found: install Python 3.10 or newer, or run make PYTHON=/path/to/python3"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "$(PYTHON) is $$('$(PYTHON)' -V 2>&1): Python 3.10 or newer is needed; run make PYTHON=python3.12"; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module: install it (Debian, Ubuntu: apt install python3-venv)"; exit 1; }
	@echo "Installing the pinned dependencies into $(VENV) (about 1.8 GB, once)"
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[test,dev]'
	@touch $@

demo: $(STAMP)
	$(BIN)/rocke demo

test: $(STAMP)
	$(PYTEST) -m 'not slow'

test-quick: $(STAMP)
	$(PYTEST) -m 'not slow and not normal'

test-slow: $(STAMP)
	$(PYTEST) -m slow

check: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: $(STAMP)
	$(BIN)/python tools/bench/bench_compile.py
	$(BIN)/python tools/bench/bench_emulator.py
	$(BIN)/python tools/bench/bench_select.py
	$(BIN)/python tools/bench/bench_gemm.py
	$(BIN)/python tools/bench/bench_wan.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
