# The commands of the house. Each makes what it needs by itself; beside make it asks for Python 3.11 or newer with venv.
# What it keeps true: a stamp in an environment says that its set-up ran to the end with the pyproject.toml and the
# constraints.txt of the stamp's time. The stamp is taken away first and put back last, so an interrupted set-up has none.

PAGES := README.md CONTRIBUTING.md $(wildcard docs/*.md docs/*/*.md)
PYTHON ?= python3
# A Python that is named has an environment of its own: `make test PYTHON=python3.14`.
VENV := .venv$(if $(filter file,$(origin PYTHON)),,-$(notdir $(PYTHON)))
VENV_PEERS := .venv-peers
BIN := $(VENV)/bin/python
BIN_PEERS := $(VENV_PEERS)/bin/python
PIP_INSTALL := -m pip --disable-pip-version-check install --quiet --quiet --constraint constraints.txt

# torchdata 0.9.0 is the last one with datapipes and DataLoader2, and needs another environment because the tests of
# loader2 ask for a newer one. It says torch>=2 and does run on the torch of constraints.txt, in process and with worker
# processes alike. numpy is not required by either; torch warns at import without it.
# With it live the peers of real work that the tests do not need; litdata reads Parquet by polars.
PEERS := torchdata==0.9.0 torch numpy grain litdata Pillow polars pyarrow spdl
PEERS_RUN := import grain, litdata, polars, pyarrow, PIL.Image, spdl.dataloader; \
	from torchdata.datapipes.iter import IterableWrapper; \
	from torchdata.dataloader2 import DataLoader2, InProcessReadingService; \
	loader = DataLoader2(IterableWrapper(range(3)), reading_service=InProcessReadingService()); \
	assert list(loader) == [0, 1, 2]

.DEFAULT_GOAL := help
.PHONY: help demo test laws cluster fuzz docs bench bench-real bench-cluster bench-peers format clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.complete ## a tour of the library, in a minute
	@$(BIN) -m loader2 demo

# One check after the other, cheapest first; the first that fails ends the run and is named.
define step
	@printf '\n== %s\n' '$(1)'
	@$(2) || { printf '\nmake test: stopped at "%s". To repeat it alone: %s\n' '$(1)' '$(2)' >&2; exit 1; }
endef

# Three at a time, for two processors: tests also wait, for processes, disks and deadlines.
test: $(VENV)/.complete ## everything that must hold: format, lint, types, tests, laws
	$(call step,format,$(BIN) -m ruff format --check .)
	$(call step,pages,$(BIN) -m ruff format --check --line-length 72 $(PAGES))
	$(call step,lint,$(BIN) -m ruff check .)
	$(call step,types,$(BIN) -m mypy --strict)
	$(call step,tests,$(BIN) -m pytest -n 3)
	@printf '\nmake test: all is well.\n'

laws: $(VENV)/.complete ## every operator against every law, at every position, and workers against every fault; `make test` has most of both
	@$(BIN) -m tests.laws
	@$(BIN) -m tests.faults

cluster: $(VENV)/.complete ## a Ray cluster of three nodes here: workers, nodes and the head killed, stopped and added
	@$(BIN) -m tests.reading_services.cluster

fuzz: $(VENV)/.complete ## 10,000 bits flipped and as many pieces moved about in files of each format; some minutes
	@$(BIN) -m tests.fuzzing

docs: $(VENV)/.complete ## the site, in site/: its first page is site/index.html; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN) -m mkdocs build --strict

bench: $(VENV)/.complete ## the same work here, in peers and at the limit, as a table of ratios
	@$(BIN) -m benchmarks

REAL ?=
bench-real: $(VENV)/.complete ## real work, here and in peers, in fresh processes, and its chart; two hours, or REAL='--share 0.4 --only csv'
	@$(BIN) -m benchmarks.real --record $(REAL)

bench-cluster: $(VENV)/.complete ## workers on a Ray cluster, beside worker processes, Ray's object store, Ray Data and torch
	@$(BIN) -m benchmarks.cluster

bench-peers: $(VENV_PEERS)/.complete ## make the environment of the peers torchdata 0.9.0, grain, litdata and spdl, for `make bench` and `bench-real`
	@echo 'The peers are in $(VENV_PEERS).'

format: $(VENV)/.complete ## rewrite the sources as `make test` wants them, as far as a machine can
	@$(BIN) -m ruff check --fix .
	@$(BIN) -m ruff format .
	@$(BIN) -m ruff format --line-length 72 $(PAGES)

clean: ## remove caches and build outputs (environments stay: remove .venv* by hand)
	@rm -rf build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name '.venv*' -prune -o -name .git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

# $(call environment,folder): keep an environment that is sound; make anew one that is missing, half made, older than
# Python 3.11 or without its interpreter.
recent = -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
define environment
	@rm -f $(1)/.complete
	@echo 'Setting up $(1); the first time this takes some minutes.'
	@$(1)/bin/python $(recent) && $(1)/bin/python -m pip --version >/dev/null 2>&1 || { \
		$(PYTHON) $(recent) || { echo '$(PYTHON) is not Python 3.11 or newer: name one by make PYTHON=...' >&2; exit 1; }; \
		$(PYTHON) -m venv --clear $(1); }
	@touch $(1)/.begun
endef

# The stamp is the file of the beginning, renamed: a pyproject.toml edited while pip ran is then newer than it.
$(VENV)/.complete: pyproject.toml constraints.txt
	$(call environment,$(VENV))
	@$(BIN) $(PIP_INSTALL) --editable '.[test]'
	@$(BIN) -m pip check
	@mv $(VENV)/.begun $@

$(VENV_PEERS)/.complete: constraints.txt Makefile
	$(call environment,$(VENV_PEERS))
	@$(BIN_PEERS) $(PIP_INSTALL) $(PEERS)
	@$(BIN_PEERS) -m pip check
	@$(BIN_PEERS) -W ignore -c '$(PEERS_RUN)'
	@mv $(VENV_PEERS)/.begun $@
