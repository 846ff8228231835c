# `make demo` and `make test` do all the set-up: a virtual environment in .venv, and qidf with its compiled kernels in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KERNELS := $(wildcard src/qidf/kernels/*.pyx src/qidf/kernels/*.pxd)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint bench docs clean

demo: $(VENV)/.core
	$(BIN)/qidf demo

test: $(VENV)/.test
	$(BIN)/python -m pytest

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/engines.py --scores 100000000

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) build site src/*.egg-info src/qidf/kernels/*.so src/qidf/kernels/*.c

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("qidf needs Python 3.11 or newer; set PYTHON=python3.x") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV)

# The kernels are compiled when qidf is installed, so installing again is how a changed .pyx reaches you.
$(VENV)/.core: $(VENV)/bin/python pyproject.toml setup.py $(KERNELS)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.test $(VENV)/.lint $(VENV)/.bench $(VENV)/.docs: $(VENV)/.%: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --editable '.[$(if $(filter lint,$*),lint$(comma)test$(comma)bench,$*)]'
	touch $@

comma := ,
