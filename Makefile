# `make demo` and `make test` do all the set-up: a virtual environment in .venv, and qidf with its compiled kernels in it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KERNELS := $(wildcard src/qidf/kernels/*.pyx src/qidf/kernels/*.pxd)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint bench lab docs clean

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

# A small study out of a public package's source, with no network but the package registry; well under a minute.
lab: $(VENV)/.lab
	mkdir -p build/lab
	$(BIN)/python -m pip download --quiet --no-deps --only-binary :all: --dest build/lab networkx==3.4.2
	$(BIN)/python -m zipfile -e build/lab/networkx-3.4.2-py3-none-any.whl build/lab/networkx
	$(BIN)/qidf collection docstrings build/lab/networkx --lang python --output build/lab/docs --replace
	$(BIN)/qidf collection docstrings build/lab/networkx --lang python --drop-name --output build/lab/docs-noname --replace
	$(BIN)/qidf study weights build/lab/docs build/lab/docs-noname --output build/lab/results
	$(BIN)/qidf report build/lab/docs-noname --html build/lab/report.html

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

$(VENV)/.test $(VENV)/.lint $(VENV)/.bench $(VENV)/.lab $(VENV)/.docs: $(VENV)/.%: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --editable '.[$(if $(filter lint,$*),lint$(comma)test$(comma)bench,$*)]'
	touch $@

comma := ,
