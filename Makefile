# make demo    set up what is missing, train a small detector, show its AP and pictures
# make test    set up what is missing, run every check and every test
# make check   lint, types, import direction, executed docstrings
# make kernels compile every shipped Triton kernel ahead of time and refresh its resource table
#
# TORCH_INDEX=<index url>  where torch comes from (a CPU-only index, for instance)
# PYTHON=<interpreter>     which Python makes the environment
# ARGS='...'               passed on to the demo or to pytest

VENV        ?= .venv
PYTHON      ?= $(shell command -v python3.11 || command -v python3)
TORCH_INDEX ?=
ARGS        ?=
JOBS        ?= 2

ENV  := tools/environment
PY   := $(VENV)/bin/python
PIP  := $(PY) -m pip install --quiet --disable-pip-version-check --constraint $(ENV)/constraints.txt

.PHONY: demo test check kernels
.DELETE_ON_ERROR:

demo: $(VENV)/.hosts-ready
	$(PY) tools/demo.py $(ARGS)

test: check
	OMP_NUM_THREADS=1 $(PY) -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

check: $(VENV)/.tests-ready
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	OMP_NUM_THREADS=1 $(PY) -m pytest --doctest-modules mmvisattn -p no:randomly -q

kernels: $(VENV)/.tests-ready
	$(PY) tools/kernels.py $(ARGS)

# The environment is made anew in steps; a step runs again when one of its lists changes.
$(VENV)/bin/python:
	@echo "making $(VENV) with $(PYTHON)"
	$(PYTHON) -c "import sys; assert sys.version_info >= (3, 10), 'Python 3.10 or newer is needed; set PYTHON='"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.torch-ready: $(ENV)/torch.txt $(ENV)/constraints.txt | $(VENV)/bin/python
	@echo "installing torch (a few minutes on a fresh machine)"
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) --requirement $(ENV)/torch.txt
	touch $@

$(VENV)/.hosts-ready: $(VENV)/.torch-ready $(ENV)/host-dependencies.txt $(ENV)/hosts.txt setup.py pyproject.toml
	@echo "installing mmengine, mmcv-lite, mmdet, mmsegmentation and this package"
	$(PIP) --requirement $(ENV)/host-dependencies.txt
	$(PIP) --no-deps --requirement $(ENV)/hosts.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.tests-ready: $(VENV)/.hosts-ready $(ENV)/test-dependencies.txt $(ENV)/peers.txt
	@echo "installing the test tools and the libraries we compare with"
	$(PIP) --requirement $(ENV)/test-dependencies.txt
	$(PIP) --no-deps --requirement $(ENV)/peers.txt
	touch $@
