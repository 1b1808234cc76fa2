# make demo: a virtual environment, the package, and the report on a shipped faulty script.
# make test: the same environment, then every check but the long tests.
# make long: whole searches, verifications and resumes on real trainers; all shipped scripts; about eight minutes.
# make test-cuda: the probe under a CUDA build of torch, which needs no GPU; downloads about three gigabytes.
# make docs: the documentation as a site in build/docs; a warning or a dead link is an error.
# make wheel: the wheel, tried in an environment without torch.
# make accuracy: the labelled scripts of the subset, scored; about three minutes.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# A release for CUDA: with a pin of its own, and none of constraints.txt, which may name a build for CPUs.
CUDA_VENV ?= .venv-cuda
CUDA_TORCH ?= torch==2.14.1
CUDA_BIN := $(CUDA_VENV)/bin

DOCS_VENV ?= .venv-docs

.PHONY: demo test test-cuda lint unit long accuracy docs wheel clean

demo: $(VENV)/.ready
	$(BIN)/autotune diagnose fixtures/scripts/tokenise_in_getitem.py --steps 400

test: lint unit

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.ready
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m "not long"

long: $(VENV)/.ready
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m long

accuracy: $(VENV)/.ready
	$(BIN)/python -m benchmarks.accuracy --subset --least 0.6

docs: $(DOCS_VENV)/.ready
	$(DOCS_VENV)/bin/sphinx-build --fail-on-warning --keep-going --nitpicky --quiet -c docs . build/docs

wheel: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet build
	$(BIN)/python tests/ci/wheel_smoke.py

test-cuda: $(CUDA_VENV)/.ready
	$(CUDA_BIN)/python -c 'import torch; print("torch", torch.__version__, "CUDA", torch.version.cuda); assert torch.version.cuda'
	$(CUDA_BIN)/python -m pytest tests/probe

$(CUDA_VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(CUDA_VENV)
	$(CUDA_BIN)/python -m pip install --quiet --upgrade pip
	$(CUDA_BIN)/python -m pip install --quiet $(CUDA_TORCH) --editable '.[dev]'
	touch $@

# The pages are read as they are: of the package only its version.
$(DOCS_VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(DOCS_VENV)/bin/python -m pip install --quiet --constraint constraints.txt --group docs
	touch $@

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("autotune needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0 --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) $(CUDA_VENV) $(DOCS_VENV) .autotune build
