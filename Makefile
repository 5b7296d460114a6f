# Every target makes its own environment from nothing but python3 and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
.DEFAULT_GOAL := help

.PHONY: help demo test fuzz bench docs lint wheel clean
help:  ## what there is to make
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

# One stamp per extra: .venv/.report means the package and its extra "report" are installed.
$(VENV)/.%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

demo: $(VENV)/.report  ## fit shared and specific factors on real data and write demo/report.html
	@$(BIN)/python -m jaxshared demo --output demo

test: $(VENV)/.test  ## run every test, doctest, example and README snippet
	@$(BIN)/python -m pytest -n auto

fuzz: $(VENV)/.test  ## make 20,000 hostile calls in child processes and print what came of them
	@$(BIN)/python -m tests.hostile 20000

bench: $(VENV)/.bench  ## print speed and memory against scikit-learn and SciPy
	@$(BIN)/python -m benchmarks

docs: $(VENV)/.docs  ## build the documentation site; warnings are errors
	@$(BIN)/python -m sphinx -W -q -b html docs docs/_build/html && echo docs/_build/html/index.html

lint: $(VENV)/.lint  ## check formatting, style and types
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/python -m tests.annotated

wheel: $(VENV)/.lint  ## build the wheel, install it in an empty environment, run the README's first block
	@$(BIN)/python -m tests.wheel

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) demo docs/_build build dist
