PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: install run ui test tests test-all lint style types format docs docs-links

install: $(STAMP)

# Thirty thousand modules are installed; those that are used are compiled when they are.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --no-compile --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

run: install
	$(BIN)/mog run
	@echo "\`make ui\` opens the UI at http://127.0.0.1:3000"

ui: install
	$(BIN)/mog ui

# Types are checked beside the tests, which leave some of two cores; what is told in a second comes first.
test: install style
	$(MAKE) --no-print-directory -j 2 types tests

# A fourth of the time tests wait for servers and other processes, so that three fill two cores. tests/conftest.py
# orders the files.
WORKERS ?= 3
tests: install
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# What takes long, too: servers, browsers, kills, whole projects; and more examples of every property. Each in a copy
# that has its part alone.
test-all: install lint
	$(BIN)/python .ci/parts.py test

lint: style types

style: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: install
	$(BIN)/mypy

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: install
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/site
	@echo "build/site/index.html"

docs-links: install
	$(BIN)/python -m sphinx -q -b linkcheck docs build/links
