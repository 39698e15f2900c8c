# Two commands are enough: `make demo` and `make test`. Both make their own environment first.
VENV ?= .venv
PYTHON ?= python3
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

DPNP := .venv-dpnp

.PHONY: help demo lint test full soak bench docs dpnp clean
help:  ## show the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

$(STAMP): pyproject.toml
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: $(STAMP)  ## plan and train Wide & Deep on the bundled census data
	$(PY) examples/adult_wide_deep.py

lint: $(STAMP)  ## style, types, import contracts, names
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) tests/check_names.py

test: lint  ## lint, then every kind of test once, small: ten minutes at most, cold, on two cores
	$(PY) -m pytest -q -n 2 --dist loadgroup --durations 20

$(VENV)/.full: $(STAMP)
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev,full]'
	touch $@

full: lint $(VENV)/.full  ## the same and what takes longer: clusters under every fault, optional packages, real data; an hour at most
	$(PY) -m pytest -q -n 2 --dist loadgroup --durations 40 --cov -m "not soak"

soak: $(STAMP)  ## the long matrix: many seeds, many kills; hours
	$(PY) -m pytest -q -m soak --timeout 7200 --durations 40

$(DPNP)/.installed: pyproject.toml
	test -x $(DPNP)/bin/python || $(PYTHON) -m venv $(DPNP)
	$(DPNP)/bin/python -m pip install --quiet --disable-pip-version-check dpnp intel-opencl-rt pytest pytest-timeout hypothesis -e .
	touch $@

dpnp: $(DPNP)/.installed  ## models on a foreign device library, in an environment of its own (3.5 GB)
	OCL_ICD_FILENAMES=$(CURDIR)/$(DPNP)/lib/libintelocl.so $(DPNP)/bin/python -m pytest -q tests/dpnp

$(VENV)/.docs: $(STAMP)
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

docs: $(VENV)/.docs  ## the documentation as a site in build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet

bench: $(STAMP)  ## side by side with the peers, ratios in one run
	$(PY) -m benchmarks.run

clean:  ## remove the environment and caches
	rm -rf $(VENV) $(DPNP) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
