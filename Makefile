# make demo     set up, then show decisions and compute attention on this machine
# make serve    set up, then answer over HTTP with the shipped rules, at http://127.0.0.1:8320
# make test     set up, then every check that CI makes
# make full     the same, with the slow tests too
# make integrations  the tests with the oldest and the newest diffusers that are supported, each in an environment of its own
# make generate write the generated files again
# make mutation tell which changes of the rules' and the analysis' code no test notices (long; no part of CI)
#
# Needs Python 3.11 or newer with pip and venv. Another Python: make test PYTHON=python3.12

PYTHON ?= python3
PYTEST_ARGS ?= -n auto
MUTMUT_ARGS ?=
SERVE_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --constraint constraints.txt
# What the generated files are made with; with --check it writes nothing and fails where one has drifted.
GENERATE := $(BIN)/python -m selector.schemas
# Environments apart from the other one: packages of kernels, such as flashinfer, keep diffusers from being imported.
DIFFUSERS := oldest newest
DIFFUSERS_TESTS := tests/integrations/diffusers
# Percent of the branches of selector/ that the tests must take.
BRANCHES := 95

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo serve test full checks lint types imports generated unit unit-full integrations integrations-full coverage generate mutation clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

# A stamp for each set of extras. The larger set is a superset of the smaller, so it makes both stamps; order of calls
# does not matter, and a call that finds its stamp installs nothing.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/stamp-torch: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[torch]'
	@touch $@

$(VENV)/stamp-serve: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[serve]'
	@touch $@

$(VENV)/stamp-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[torch,dev,serve]'
	@touch $(VENV)/stamp-torch $(VENV)/stamp-serve $@

$(VENV)/stamp-mutation: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) --editable '.[torch,dev,serve,mutation]'
	@touch $(VENV)/stamp-torch $(VENV)/stamp-serve $(VENV)/stamp-dev $@

.venv-diffusers/%/stamp: $(DIFFUSERS_TESTS)/%.txt pyproject.toml
	test -x $(@D)/bin/pip || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --constraint $< --editable '.[diffusers]' transformers pytest-cov pytest-xdist \
		$(if $(filter newest,$*),cache-dit)
	@touch $@

demo: $(VENV)/stamp-torch
	$(BIN)/python -m selector.demo

serve: $(VENV)/stamp-serve
	$(BIN)/attention-selector serve $(SERVE_ARGS)

test: checks unit integrations coverage

full: checks unit-full integrations-full coverage

checks: lint types imports generated

lint: $(VENV)/stamp-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/stamp-dev
	$(BIN)/mypy

imports: $(VENV)/stamp-dev
	$(BIN)/lint-imports

generated: $(VENV)/stamp-dev
	$(GENERATE) --check

unit: $(VENV)/stamp-dev
	$(BIN)/pytest -m 'not slow' --cov --cov-report= $(PYTEST_ARGS)

unit-full: $(VENV)/stamp-dev
	$(BIN)/pytest --cov --cov-report= $(PYTEST_ARGS)

# What they cover is added to what `unit` did.
integrations: MARKED := -m 'not slow'
integrations integrations-full: $(DIFFUSERS:%=.venv-diffusers/%/stamp)
	@for each in $(DIFFUSERS); do echo "diffusers: $$each"; \
	.venv-diffusers/$$each/bin/pytest $(DIFFUSERS_TESTS) $(MARKED) --cov --cov-append --cov-report= $(PYTEST_ARGS) || exit 1; done

# The report names each line and branch not taken. Its total mixes lines and branches, so branches are asked for apart.
coverage: $(VENV)/stamp-dev
	$(BIN)/coverage report
	$(BIN)/coverage report --include='selector/*' --format=total --fail-under=$(BRANCHES)
	@$(BIN)/coverage json --quiet --include='selector/*' -o - | $(BIN)/python -c 'import json, sys; \
	taken = json.load(sys.stdin)["totals"]["percent_branches_covered"]; \
	print(f"selector: {taken:.2f} % of branches taken, $(BRANCHES) wanted"); sys.exit(taken < $(BRANCHES))'

generate: $(VENV)/stamp-dev
	$(GENERATE)
	$(BIN)/attention-selector test --generate rules/tests/generated.yaml
	$(BIN)/python -m tests.doc_examples
	$(BIN)/python -m tests.editors.transcript

# From nothing each time: what an earlier run found says nothing once a test has changed.
mutation: $(VENV)/stamp-mutation
	rm -rf mutants
	$(BIN)/mutmut run $(MUTMUT_ARGS)
	$(BIN)/python -m tests.mutation

clean:
	rm -rf $(VENV) .venv-diffusers build dist mutants .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
