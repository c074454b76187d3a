# The two commands: `make train` and `make test`. Both set up .venv first, once, and again whenever
# pyproject.toml or constraints.txt change. Another interpreter: `make train PYTHON=python3.12`.

PYTHON ?= python3
# Each of these needs to be on the PATH for `make test-base`; the first also tries the oldest releases.
PYTHONS ?= python3.10 python3.11 python3.12 python3.13

BIN = .venv/bin
PIP_INSTALL = -m pip install -qq --disable-pip-version-check
PYTEST = $(BIN)/pytest -n auto --maxprocesses 4

.PHONY: train train-10min champion-2p champion-3p champion-4p champion-6p small-2p test test-all test-modes fuzz lint test-base test-integrations rllib openspiel bench bench-quick clean
.PRECIOUS: .venv-base-%/ready

# A run is never overwritten: each has a folder of its own. Another seed: `make train SEED=2`.
SEED ?= 1
RUN := runs/quick-$(shell date +%Y%m%d-%H%M%S)

train: .venv/ready-train
	@echo "train: configs/quick.yaml, seed $(SEED), into $(RUN)"
	@$(BIN)/python -m training.selfplay --config configs/quick.yaml --set seed=$(SEED) --run-dir $(RUN)
	@echo "evaluate: $(RUN) against random and greedy"
	@$(BIN)/briscola evaluate $(RUN) --against random greedy --decks 2000 --seed 1

# Time to strength on two cores: minutes of training, margin over expert-v1, its 95 % interval.
train-10min: .venv/ready-train
	@echo "train-10min: configs/ten-minutes.yaml, seed $(SEED), two ranks, into $(RUN)"
	@OMP_NUM_THREADS=1 $(BIN)/torchrun --nproc-per-node 2 -m training.selfplay --config configs/ten-minutes.yaml --set seed=$(SEED) --run-dir $(RUN)
	@$(BIN)/python -m training.plots $(RUN) --metric eval/margin_expert-v1
	@$(BIN)/briscola evaluate $(RUN) --against expert-v1 --decks 20000 --seed 1

# Players like those in models/, from fresh weights: a run, and for some a second and a third that
# begin with the weights of the one before. Their cards say how long it takes.
MODELS = champion-2p champion-3p champion-4p champion-6p small-2p
MODEL_RUNS = runs/$@-$(shell date +%Y%m%d-%H%M%S)

$(MODELS): export OMP_NUM_THREADS = 1
$(MODELS): .venv/ready-train
	@folder=$(MODEL_RUNS) start=null && echo "$@: into $$folder" && \
	for config in $(wildcard configs/$@.yaml configs/$@-second.yaml configs/$@-third.yaml); do \
	  run=$$folder/$$(basename $$config .yaml) && \
	  $(BIN)/python -m training.selfplay --config $$config --set start=$$start --run-dir $$run && \
	  start=$$run/last.safetensors || exit; \
	done && \
	$(BIN)/briscola evaluate $$start --against expert-v1 --decks 20000 --seed 1

# One thread a process: the tests run in several processes already.
test test-all test-modes: export OMP_NUM_THREADS = 1

test: lint
	@echo "test: pytest"
	@$(PYTEST)

test-all: lint test-modes
	@echo "test: pytest, the slow tests too"
	@$(PYTEST) -m ""

ENGINE_TESTS = $(patsubst %,tests/test_%.py,twin rule_cases rules engine state information resample encoding golden jit layers)

test-modes: .venv/ready-dev
	@echo "test: the engine uncompiled, with fewer games, then with bounds checks"
	@NUMBA_DISABLE_JIT=1 $(PYTEST) $(ENGINE_TESTS)
	@NUMBA_BOUNDSCHECK=1 $(PYTEST) $(ENGINE_TESTS)

fuzz: .venv/ready-dev
	@echo "fuzz: a million actions against the slow twin"
	@$(BIN)/python -m tests.fuzz

lint: .venv/ready-dev
	@echo "lint: ruff check, ruff format, mypy"
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --quiet --check
	@$(BIN)/mypy

# What needs none of the extras, on every Python and with the oldest releases.
test-base: $(PYTHONS:python%=test-base-%) test-base-oldest

test-base-%: .venv-base-%/ready
	@echo "test: pytest, base tests, $*"
	@.venv-base-$*/bin/pytest --ignore=tests/train --ignore=tests/sb3 --ignore=tests/onnx

# The examples with TorchRL and Tianshou, which has other pins than ours.
test-integrations: export OMP_NUM_THREADS = 1
test-integrations: .venv-integrations/ready
	@echo "test: pytest tests/integrations"
	@.venv-integrations/bin/pytest tests/integrations

# RLlib needs an older gymnasium than we test with. One process: the tests share a local Ray.
rllib: .venv-rllib/ready
	@echo "test: pytest, RLlib on a local Ray"
	@OMP_NUM_THREADS=1 .venv-rllib/bin/pytest tests/rllib

# OpenSpiel is no extra of ours: the newest one needs Python 3.11, its wheels are few.
openspiel: export OMP_NUM_THREADS = 1
openspiel: .venv-openspiel/ready
	@echo "openspiel: pytest tests/openspiel"
	@.venv-openspiel/bin/pytest -m "" tests/openspiel

# Ours and other libraries in turn, about ten minutes. Into the page too:
# .venv-bench/bin/python -m benchmarks.compare --read runs/bench.json --write docs/benchmarks.md
bench: .venv-bench/ready
	@echo "bench: ours against others, into runs/bench.json"
	@.venv-bench/bin/python -m benchmarks.compare --json runs/bench.json

bench-quick: .venv/ready-dev
	@echo "bench: ours alone, about a minute"
	@$(BIN)/python -m benchmarks.compare --quick

# Set-up. The empty files `ready*` remember what is installed.

# pip is the last thing that venv makes.
.venv/bin/pip:
	@echo "set-up: .venv"
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("Python 3.10 or newer is needed; name one: make PYTHON=python3.12")'
	@$(PYTHON) -m venv .venv

.venv/ready-train: pyproject.toml constraints.txt | .venv/bin/pip
	@echo "set-up: packages for training (minutes, if torch must be downloaded)"
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e '.[train,arena]'
	@touch $@

.venv/ready-dev: pyproject.toml constraints.txt | .venv/bin/pip
	@echo "set-up: packages for training and tests (minutes, if torch must be downloaded)"
	@$(BIN)/python $(PIP_INSTALL) -c constraints.txt -e '.[train,arena,sb3,onnx,dev]'
	@touch .venv/ready-train $@

.venv-base-oldest/ready: pyproject.toml constraints-oldest.txt
	@echo "set-up: .venv-base-oldest"
	@$(firstword $(PYTHONS)) -m venv .venv-base-oldest
	@.venv-base-oldest/bin/python $(PIP_INSTALL) -c constraints-oldest.txt -e '.[dev]'
	@touch $@

.venv-base-%/ready: pyproject.toml constraints.txt
	@echo "set-up: .venv-base-$*"
	@python$* -m venv .venv-base-$*
	@.venv-base-$*/bin/python $(PIP_INSTALL) -c constraints.txt -e '.[dev]'
	@touch $@

.venv-rllib/ready: pyproject.toml constraints.txt constraints-rllib.txt
	@echo "set-up: .venv-rllib"
	@$(PYTHON) -m venv .venv-rllib
	@grep -v '^gymnasium==' constraints.txt > .venv-rllib/constraints.txt
	@.venv-rllib/bin/python $(PIP_INSTALL) -c .venv-rllib/constraints.txt -c constraints-rllib.txt -e '.[train,arena,dev]' 'ray[rllib]'
	@touch $@

.venv-bench/ready: pyproject.toml constraints.txt benchmarks/requirements.txt
	@echo "set-up: .venv-bench (other libraries)"
	@$(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python $(PIP_INSTALL) -c constraints.txt -r benchmarks/requirements.txt -e .
	@touch $@

# Tianshou wants an older filelock than today's torch.
.venv-integrations/ready: pyproject.toml constraints.txt tests/integrations/requirements.txt
	@echo "set-up: .venv-integrations (TorchRL, Tianshou)"
	@$(PYTHON) -m venv .venv-integrations
	@grep -v '^filelock' constraints.txt > .venv-integrations/constraints.txt
	@.venv-integrations/bin/python $(PIP_INSTALL) -c .venv-integrations/constraints.txt -r tests/integrations/requirements.txt -e '.[train,arena,dev]'
	@touch $@

.venv-openspiel/ready: pyproject.toml constraints.txt tests/openspiel/requirements.txt
	@echo "set-up: .venv-openspiel"
	@$(PYTHON) -m venv .venv-openspiel
	@.venv-openspiel/bin/python $(PIP_INSTALL) -c constraints.txt -r tests/openspiel/requirements.txt -e '.[train,arena,dev]'
	@touch $@

# Leaves runs/ alone.
clean:
	@echo "clean: virtual environments and caches"
	@rm -rf .venv .venv-base-* .venv-bench .venv-integrations .venv-rllib .venv-openspiel .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	@find . -name __pycache__ -prune -exec rm -rf {} +
