# Two commands are enough:   make demo   (see it work)   make test   (check everything)

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install -q -c constraints.txt

# Seen with 2 cores; `make test JOBS=8` uses more.
JOBS   ?= 2

# The tests run in parallel processes, so each gets one thread for linear algebra.
quick test test-all: export OPENBLAS_NUM_THREADS := 1
quick test test-all: export OMP_NUM_THREADS := 1

# `make test` tries the same random examples every time, test-all new ones.
test-all: export NEW_EXAMPLES := 1

.DEFAULT_GOAL := help

# What a core install can test in under a minute of two quiet cores.
CORE  := tests/mixtures/test_adversary.py tests/mixtures/test_balls.py tests/mixtures/test_boxes.py \
         tests/mixtures/test_parsing.py tests/mixtures/test_sets.py tests/problem/test_dealing.py \
         tests/problem/test_losses.py tests/problem/test_rows.py tests/problem/test_parts.py \
         tests/solvers/test_players.py tests/selection/test_rule.py tests/auditing/test_intervals.py \
         tests/auditing/test_guarantees.py tests/estimators/test_domain_features.py \
         tests/bounds/test_skews.py tests/test_errors.py tests/test_files.py tests/solvers/test_trails.py \
         tests/solvers/test_search_certificates.py tests/estimators/test_keywords.py

quick: export QUICK := 1

.PHONY: help setup demo quick test test-all lint bench paper docs clean

help:
	@echo "make demo      install what is needed, solve a first problem and show it"
	@echo "make quick     the core's tests on a core install, in under a minute"
	@echo "make test      lint, types, import directions and the tests (a few minutes)"
	@echo "make test-all  the same with the slow tests and those that need more software"
	@echo "make setup     .venv with everything the tests need"
	@echo "make lint      only the checks that read the code"
	@echo "make bench     every benchmark but benchmarks/usefulness.py, which takes hours"
	@echo "make paper     the paper's Tables 1 and 2, Proposition 1 and the figure of λ*, in reproduction/"
	@echo "make docs      the documentation as web pages in site/"
	@echo "make clean     remove what the commands above wrote, except the environments"

setup: $(VENV)/dev.stamp

demo: $(VENV)/demo.stamp
	$(BIN)/anymix demo

# The core's tests on a core install of their own: no torch, no Flower; a tenth of the examples.
quick: .venv-core/stamp
	.venv-core/bin/python -m pytest -q -n $(JOBS) --dist worksteal $(CORE)

test: lint
	$(BIN)/pytest -n $(JOBS) --dist worksteal

test-all: lint
	$(BIN)/pytest -n $(JOBS) --dist worksteal -m ""

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# All but benchmarks/usefulness.py, which has commands of its own and takes hours.
bench: $(VENV)/dev.stamp
	@set -e; for script in $(filter-out benchmarks/usefulness.py,$(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python "$$script"; done

# Table 3 and Online News need PyTorch and hours: python paper/tables.py language
paper: $(VENV)/demo.stamp
	@set -e; for what in adult fashion proposition1 lambda-star; do $(BIN)/python paper/tables.py $$what; done

docs: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html"

clean:
	rm -rf site demo reproduction build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is younger than the two files that say what is installed, or the install runs again.
$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing everything for the tests (some minutes the first time) ..."
	@$(PIP) -e '.[torch,flower,privacy,report,dev]'
	@touch $@ $(VENV)/demo.stamp

$(VENV)/demo.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing (a minute the first time) ..."
	@$(PIP) -e '.[report]'
	@touch $@

.venv-core/stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-core
	@.venv-core/bin/python -m pip --disable-pip-version-check install -q -c constraints.txt -e . pytest pytest-xdist hypothesis
	@touch $@

$(VENV)/docs.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@$(PIP) -e '.[docs]'
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "anymix needs Python 3.11 or newer, but '$(PYTHON) --version' says" \
	         "'$$($(PYTHON) --version 2>&1 | tail -n 1)'; name another with make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
