# make demo: a virtual environment, the package, and the report on a shipped faulty script.
# make test: the same environment, then every check.
# make accuracy: the labelled scripts of the subset, scored; about three minutes.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint unit accuracy clean

demo: $(VENV)/.ready
	$(BIN)/autotune diagnose fixtures/scripts/tokenise_in_getitem.py --steps 400

test: lint unit

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.ready
	$(BIN)/python -m pytest --numprocesses 2

accuracy: $(VENV)/.ready
	$(BIN)/python -m benchmarks.accuracy --subset --least 0.6

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("autotune needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0 --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .autotune
