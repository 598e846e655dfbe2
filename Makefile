# make demo    set up what is missing, train a small detector, show its AP and pictures
# make test    set up what is missing, run every check and every test
# make check   lint, types, import direction, executed docstrings
# make kernels compile every shipped Triton kernel ahead of time and refresh its resource table
#
# TORCH_INDEX=<index url>  where torch comes from (a CPU-only index, for instance)
# PYTHON=<interpreter>     which Python makes the environment
# ARGS='...'               passed on to the demo or to pytest
# STACK=onedl              make test: run the host tests on the maintained forks of the mm packages

VENV        ?= .venv
PYTHON      ?= $(shell command -v python3.11 || command -v python3)
TORCH_INDEX ?=
ARGS        ?=
JOBS        ?= 2
STACK       ?= stock

ENV  := tools/environment
PY   := $(VENV)/bin/python
PIP  := $(PY) -m pip install --quiet --disable-pip-version-check --constraint $(ENV)/constraints.txt

# The forks live in an environment of their own, which sees the torch and the test tools of the first.
ONEDL      := $(VENV)-onedl
HOST_TESTS := tests/unit/hosts tests/unit/engine tests/configs tests/end_to_end

.PHONY: demo test check kernels
.DELETE_ON_ERROR:

# Waiting threads sleep: on a machine that does anything else, spinning ones would make a step ten times slower.
demo: $(VENV)/.hosts-ready
	OMP_WAIT_POLICY=PASSIVE $(PY) tools/demo.py $(ARGS)

PYTEST := -m pytest -n $(JOBS) --dist loadgroup
ifeq ($(STACK),stock)
test: check
	OMP_NUM_THREADS=1 $(PY) $(PYTEST) $(ARGS)
else ifeq ($(STACK),onedl)
test: $(ONEDL)/.ready
	OMP_NUM_THREADS=1 $(ONEDL)/bin/python $(PYTEST) $(HOST_TESTS) $(ARGS)
else
$(error STACK must be stock or onedl, got $(STACK))
endif

check: $(VENV)/.tests-ready
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	OMP_NUM_THREADS=1 $(PY) -m pytest --doctest-modules mmvisattn -p no:randomly -q

kernels: $(VENV)/.tests-ready
	$(PY) tools/compile_kernels.py $(ARGS)

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

$(VENV)/.tests-ready: $(VENV)/.hosts-ready $(ENV)/test-dependencies.txt $(ENV)/peers.txt $(ENV)/peers-apart.txt
	@echo "installing the test tools and the libraries we compare with"
	$(PIP) --requirement $(ENV)/test-dependencies.txt
	$(PIP) --no-deps --requirement $(ENV)/peers.txt
	$(PIP) --no-deps --upgrade --target $(VENV)/mmpretrain --requirement $(ENV)/peers-apart.txt
	touch $@

$(ONEDL)/.ready: $(VENV)/.tests-ready $(ENV)/hosts-onedl.txt
	@echo "installing the forks into $(ONEDL)"
	$(PY) -m venv $(ONEDL)
	$(PY) -c "import sysconfig; print(sysconfig.get_path('purelib'))" > \
	    $$($(ONEDL)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/base_environment.pth
	$(ONEDL)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(ENV)/constraints.txt \
	    --no-deps --requirement $(ENV)/hosts-onedl.txt
	$(ONEDL)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@
