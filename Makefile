# Every target makes its own environment; the second time it is there already.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
# Small torch operations on busy threads crawl: one thread per process.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

OLDEST := .venv-oldest

.PHONY: demo test test-all test-oldest lint format bench pages docs clean

demo: $(VENV)/.base
	$(BIN)/ma-sbi demo

test: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/pytest -n 2 -m "not slow"

test-all: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/pytest -n 2

test-oldest: $(OLDEST)/.dev
	$(ONE_THREAD) $(OLDEST)/bin/pytest -n 2 -m "not slow"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Goes on where it was stopped; with QUICK=1 small sizes, a few minutes.
bench: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/python bench/benchmarks/corrector_recipes.py
	$(ONE_THREAD) $(BIN)/python -m benchmarks.speed $(if $(QUICK),--quick)

# Pages that show what their code prints and draws are committed.
pages: $(VENV)/.base
	$(ONE_THREAD) $(BIN)/python docs/render.py

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -q -W -b html docs build/docs
	@echo "The documentation is in build/docs/index.html"

clean:
	rm -rf $(VENV) $(OLDEST) build dist

# torch comes first and pinned: an open range would pass by a CPU build that is at hand.
$(VENV)/.base: pyproject.toml bench/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	$(PIP) --editable . --editable bench
	@touch $@

# BayesFlow needs newer versions than the oldest that are tested.
$(VENV)/.dev: $(VENV)/.base
	$(PIP) --editable ".[dev,text,bayesflow]" --editable bench
	@touch $@

$(VENV)/.docs: $(VENV)/.base
	$(PIP) --editable ".[docs]" --editable bench
	@touch $@

$(OLDEST)/.dev: PIP := $(OLDEST)/bin/pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt
$(OLDEST)/.dev: pyproject.toml bench/pyproject.toml constraints-oldest.txt
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(PIP) torch==2.13.0
	$(PIP) --editable ".[dev,text]" --editable bench
	@touch $@
