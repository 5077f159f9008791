# Each target works on a machine that has Python 3.11 or newer and make: what it needs is put into .venv, once.

VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# The tests of a file run in one process, so that what they share is made and compiled once. The files that take longest
# come first (tests/durations.json), not those with the most tests.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# the first Python that is new enough; PYTHON=… chooses another
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)

.PHONY: demo test thorough durations quick engines check docs generated bench bench-check bench-studies replicate calibrate fuzz clean

demo: $(VENV)/.base  ## the whole way on a real table; files in out/
	$(BIN)/sfumato demo

# tests run side by side, so none of them may take all cores for its small products of matrices
test thorough durations quick calibrate: export OPENBLAS_NUM_THREADS ?= 1
test: $(VENV)/.dev  ## the test functions that take less than a second (tests/durations.json), in all rooms
	$(PYTEST) -m "not replication and not slow" --below 1 --durations=25 --durations-min=2

thorough: $(VENV)/.dev  ## the longer ones: cold compilers, killed clusters, statistical tests with many repetitions
	$(PYTEST) -m "not replication and not slow" --above 1

durations: $(VENV)/.dev  ## both, and how long each takes, which decides what belongs to which; on an idle machine
	$(PYTEST) -m "not replication and not slow" --record-durations

quick: $(VENV)/.dev  ## the tests that take less than half a second: after every change, in about two minutes
	$(PYTEST) -m "not replication and not slow" --below 0.5 \
		tests/architecture tests/unit tests/properties tests/conformance tests/leaks

engines: $(VENV)/.spark $(VENV)/moto/bin/moto_server  ## PySpark, which needs Java, and an object store, for tests

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.docs  ## the documentation as a site, in docs/_build/html; needs no network
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

generated: $(VENV)/.dev  ## what is written from the code itself: names for type checkers, the reference page of methods
	$(BIN)/python docs/reference/generate.py

# QUICK=1 takes at most five minutes instead of forty; ONLY=name,name chooses cases
BENCH = $(BIN)/python benchmarks/run.py $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))
bench: $(VENV)/.dev  ## ours beside rivals in environments of their own; writes docs/benchmarks.md and README's table
	$(BENCH)

bench-check: $(VENV)/.dev  ## fails if a figure of ours is a fifth worse than before on this machine
	$(BENCH) --check

bench-studies: $(VENV)/.dev  ## longer measurements of single methods, which the pages on theory and cost show
	@for file in benchmarks/studies/*.py; do $(BIN)/python "$$file" || exit 1; done

replicate: export OPENBLAS_NUM_THREADS ?= 1
replicate: $(VENV)/.dev  ## the numbers of the papers, and the pages that show them; at most 40 minutes
	$(PYTEST) -m replication tests/replication
	ls docs/replication/*.py | xargs -n 1 -P $(WORKERS) $(BIN)/python

calibrate: $(VENV)/.dev  ## hundreds of repetitions: how often a verdict is wrong, and whether promises about a population hold
	$(PYTEST) -m "slow and not replication"

TABLES ?= 100000
fuzz: $(VENV)/.dev  ## generated tables over all methods; goes on where it stopped (fuzz.json)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/fuzz/run.py --tables $(TABLES) --state fuzz.json --workers $(WORKERS)

clean:
	rm -rf $(VENV) out dist build docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: install it, or make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.base $(VENV)/.docs

$(VENV)/.spark: pyproject.toml constraints.txt | $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark]'
	@touch $@

$(VENV)/moto/bin/moto_server: | $(VENV)/.dev
	$(BIN)/python -m venv $(VENV)/moto
	$(VENV)/moto/bin/python -m pip install --quiet --disable-pip-version-check 'moto[s3,server]>=5'

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@ $(VENV)/.base
