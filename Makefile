# Each target makes its own virtual environment and installs what it needs: Python 3.11+ and make are enough.
#
#   make demo     train on handwritten digits on every backend that this machine can run
#   make quick    the heart of the test suite, in under a minute: the files in tests/quick.txt
#   make test     the test suite
#   make test-sim what of it runs on `sim`, or on the default backend, with `sim` for that and another schedule
#   make test-full  the test suite with everything at full size, and other random snippets for each seed: SEED=2
#   make environment  the packages of the tests alone, which the first `make test` installs too
#   make coverage the test suite, and which lines and branches of the library it reaches
#   make lint     ruff's rules and format, who imports whom, spelling, and the project's own words
#   make types    mypy --strict
#   make native   strict warnings of the C files, the sanitizers over random cases, and a compiler for other systems
#   make installed  install it as a new user does, in an empty environment, and do what the front page says
#   make reference  the pages, tables and the stub that are written from the code
#   make docs     the documentation site, in site/, with its reference pages written anew
#   make clean    remove the environment and everything built
#
# PYTHON=python3.12 chooses the interpreter. With an NVIDIA driver present the environment also sees the packages of
# that interpreter, so that an installed CuPy, PyTorch or PyCUDA is used: nothing of CUDA's gigabytes is downloaded.

SHELL := /bin/sh
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
SEED ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of programs: without bytecode each would compile the library anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: environment demo quick test test-sim test-full coverage lint types native installed docs reference check clean

environment: $(VENV)/.test

demo: $(VENV)/.demo
	$(BIN)/xferlib demo $(ARGS)

quick: $(VENV)/.test
	@echo "the heart of the test suite, on two processes: a minute or less on two free cores"
	$(BIN)/python -m pytest -n 2 --dist worksteal -q @tests/quick.txt $(ARGS)

test: $(VENV)/.test
	@echo "the test suite: some minutes; 's' is a test that this machine cannot run, and why"
	@echo "is counted at the end; 'make quick' takes a minute, and ARGS=tests/test_transfer.py runs a part"
	$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

test-sim: $(VENV)/.test
	XFERLIB_BACKEND=sim XFERLIB_SIM=raise XFERLIB_SIM_SCHEDULE=lifo $(BIN)/python -m pytest -n auto --dist worksteal -q -k "sim or _raw or messages" $(ARGS)

test-full: $(VENV)/.test
	XFERLIB_TEST_LONG=$(SEED) $(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

coverage: $(VENV)/.test
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n auto --dist worksteal -q $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report --skip-covered

lint: $(VENV)/.lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell -D - -D tools/words/dictionary.txt *.md Makefile benchmarks changes docs examples tests tools xferlib
	$(BIN)/python tools/check_words.py

types: $(VENV)/.lint
	$(BIN)/mypy

native: $(VENV)/.native
	$(BIN)/python tools/check_native.py
	$(BIN)/python tools/check_cross.py

installed: $(VENV)/.made
	$(BIN)/python tools/check_install.py $(ARGS)

docs: $(VENV)/.docs reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

reference: $(VENV)/.docs $(VENV)/.lint
	$(BIN)/python tools/make_stub.py
	$(BIN)/python tools/make_reference.py
	$(BIN)/python tools/make_tables.py

check: lint types native test

$(VENV)/.made:
	sh tools/make_venv.sh $(VENV)
	$(BIN)/python tools/install_packages.py --get-uv
	@touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml
	@echo "installing the packages of the demo into $(VENV): some minutes"
	$(BIN)/python tools/install_packages.py --editable '.[demo]'
	$(BIN)/python tools/install_cpu_torch.py
	@touch $@

$(VENV)/.test: $(VENV)/.made pyproject.toml
	@echo "installing the packages of the tests into $(VENV): some minutes"
	$(BIN)/python tools/install_packages.py --editable '.[test]'
	$(BIN)/python tools/install_cpu_torch.py
	@touch $@

$(VENV)/.native: $(VENV)/.made pyproject.toml
	@echo "installing the compiler for other systems into $(VENV)"
	$(BIN)/python tools/install_packages.py --packages-of native
	@touch $@

$(VENV)/.lint: $(VENV)/.made pyproject.toml
	@echo "installing the packages of lint and types into $(VENV): some minutes"
	$(BIN)/python tools/install_packages.py --packages-of lint
	@touch $@

$(VENV)/.docs: $(VENV)/.made pyproject.toml
	@echo "installing the packages of the documentation into $(VENV): some minutes"
	$(BIN)/python tools/install_packages.py --editable '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) site build dist htmlcov .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
