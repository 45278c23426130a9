PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.ready
ASYNC := src/pilotage/client/_async

# The installation, and the synchronous client, which git does not keep.
READY := src/pilotage/client/_sync/__init__.py

# More for pytest: make test OPTIONS="-k slurm"
OPTIONS ?=

# A worker that dies ends the run, which names its test. Without this, pytest-xdist starts that test again and again.
NO_RESTART := --max-worker-restart=0

TEST = $(BIN)/python -m pytest -n auto $(NO_RESTART) --dist loadfile --no-loadscope-reorder --timeout 300 -rs --ignore tests/page --ignore tests/sites --ignore tests/packages

# Workers of make quick: one more than cores, because its tests compute more than they wait, and to collect
# them takes each worker 4 s. The other targets take two for each core.
QUICK_WORKERS ?= $(shell echo $$(($$(nproc 2>/dev/null || echo 2) + 1)))

# Tests start many processes: their modules are compiled once, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-twins test-endurance test-sites test-rucio test-integrations test-packages test-page chaos fuzz audit pictures quick check types size bench bench-pairs release lock format docs site clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

$(INSTALLED): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(READY): $(INSTALLED) hatch_build.py $(ASYNC) $(wildcard $(ASYNC)/*.py)
	$(BIN)/python hatch_build.py

demo: $(READY) ## one real task all the way, on the embedded default
	$(BIN)/pilotage demo

test: $(READY) ## the tests, on SQLite, and on a real PostgreSQL where its SQL differs
	$(TEST) -m "not endurance and not twin" $(OPTIONS)

test-twins: $(READY) ## the tests on PostgreSQL that make test runs on SQLite alone
	$(TEST) -m "twin and not endurance" $(OPTIONS)

test-endurance: $(READY) ## the tests that take minutes: kills at random moments, simulated weeks, properties on many examples
	$(BIN)/python -m pytest -n auto $(NO_RESTART) --dist worksteal -rs -m "endurance or hypothesis" --hypothesis-profile thorough --ignore tests/page --ignore tests/sites --ignore tests/packages $(OPTIONS)

test-sites: $(READY) ## the tests on real batch systems, which it installs first (Debian, as root)
	tests/sites/install.sh
	$(BIN)/python -m pytest -n 2 $(NO_RESTART) --dist loadfile -rs $(OPTIONS) tests/sites

quick: $(READY) ## the tests of the daily loop: SQLite only, few examples, nothing slow
	$(BIN)/python -m pytest -n $(QUICK_WORKERS) --dist worksteal --hypothesis-profile quick -m "not slow and not endurance and not acceptance and not postgresql" \
	  --ignore tests/acceptance --ignore tests/page --ignore tests/sites --ignore tests/packages $(OPTIONS)

test-rucio: $(READY) ## the tests on a real Rucio server, which it installs first (from PyPI, into build/rucio)
	tests/catalogues/install.sh
	$(BIN)/python -m pytest -n 0 -rs $(OPTIONS) tests/catalogues

test-integrations: $(READY) ## the tests of integrations/ with the real Snakemake, Parsl, Dask and py-tes, which it installs first (from PyPI, into build/integrations)
	integrations/install.sh
	PILOTAGE_PYTHON="$(CURDIR)/$(BIN)/python" build/integrations/bin/python -m pytest -n 2 $(NO_RESTART) --dist worksteal -c integrations/pytest.ini --rootdir integrations -rs $(OPTIONS) integrations/tests

test-page: $(READY) ## the tests of the page in a real browser, which it installs first (Debian's chromium, as root)
	tests/page/install.sh
	$(BIN)/python -m pytest -n 2 $(NO_RESTART) --dist loadfile -rs $(OPTIONS) tests/page

test-packages: $(READY) ## the tests of what a release brings, which it builds first; it installs what they need (Debian and PyPI, as root)
	tests/packages/install.sh
	$(BIN)/python docs/release.py dist
	$(BIN)/python -m pytest -n 2 $(NO_RESTART) --dist loadfile --timeout 3600 --durations 15 -rs $(OPTIONS) tests/packages

# Minutes, seed and kinds of faults of make chaos; without a seed it draws one.
MINUTES ?= 5
SEED ?=
ONLY ?=

chaos: $(READY) ## a storm of faults on a real federation, and what it broke; MINUTES=5, SEED=7 repeats one, ONLY="pilot killed" for kinds
	$(BIN)/python -m tests.chaos --minutes "$(MINUTES)" $(if $(SEED),--seed "$(SEED)") --only "$(ONLY)"

fuzz: $(READY) ## requests from the OpenAPI document to real servers, in all MINUTES=5; SEED=7 repeats one, ONLY="sqlite,operator" for parts
	$(BIN)/python -m tests.fuzz --minutes "$(MINUTES)" $(if $(SEED),--seed "$(SEED)") --only "$(ONLY)"

audit: $(READY) ## advisories on packages of the lock, by pip-audit where it reaches a database; licences
	$(PYTHON) -m venv build/audit
	build/audit/bin/pip install --quiet pip-audit
	$(BIN)/python docs/audit.py build/audit/bin/pip-audit

pictures: $(READY) ## screenshots of every view of the page, light and dark, into build/pictures (needs chromium too)
	tests/page/install.sh
	$(BIN)/python -m pytest -n 0 $(OPTIONS) tests/page/pictures.py

check: $(READY) ## format, lint, types of what is installed, import rules
	$(BIN)/ruff format --check src tests benchmarks docs examples integrations
	$(BIN)/ruff check src tests benchmarks docs examples integrations
	$(BIN)/mypy src $(wildcard integrations/*-pilotage)
	$(BIN)/vermin --target=3.9- --no-tips --violations --quiet src/pilotage/agent src/pilotage/adapters/computing/slurmrest/start.py
	$(BIN)/lint-imports

types: $(READY) ## types of everything, also of tests, benchmarks, docs and examples
	$(BIN)/mypy

size: $(READY) ## lines of code and files by room
	$(BIN)/python docs/size.py

bench: $(READY) ## figures, each three times, as a table and in build/bench.json; ONLY=matching,memory for parts; LARGE=8 for a large file of 8 GiB, LIVES=1000000 for that many simulated jobs, YEAR=300000 for those of a year; PAIRS=REV for ratios to another commit, measured in turns
	LARGE="$(LARGE)" LIVES="$(LIVES)" YEAR="$(YEAR)" $(BIN)/python -m benchmarks --only "$(ONLY)" --pairs "$(PAIRS)"

format: $(READY) ## rewrite to the project's style
	$(BIN)/ruff format src tests benchmarks docs examples integrations
	$(BIN)/ruff check --fix src tests benchmarks docs examples integrations

docs: $(READY) ## the reference pages from the code
	$(BIN)/python docs/generate.py

site: $(READY) ## the documentation as a site, with the JSON Schemas, into build/site; fails at a dead link or a page that the index lacks
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	for kind in federation task world decision scenario; do $(BIN)/pilotage schema $$kind > build/site/reference/$$kind.schema.json || exit 1; done

# The commit that make bench-pairs compares with.
BESIDE ?= HEAD~20

bench-pairs: $(READY) ## small figures in turns with another commit (BESIDE=HEAD~20), in minutes; warns below 0.85, and never fails
	$(BIN)/python -m benchmarks.quick --pairs "$(BESIDE)"

release: $(READY) ## an sdist and a wheel of the last commit in dist, built twice to the same bytes; checksums, a bill of materials, versions
	$(BIN)/python docs/release.py dist

lock: ## requirements.lock from pyproject.toml: hashes, no index address
	$(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet uv
	build/lock/bin/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --quiet --output-file requirements.lock

clean: ## all that was made
	rm -rf $(VENV) $(dir $(READY)) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
