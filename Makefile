# Two commands: `make compare` runs the main job, `make test` runs the whole test suite. Both set up .venv first
# (Python 3.11+, a C++20 compiler and make are all they need) and can be repeated at will.

PYTHON ?= python3
BIN := .venv/bin
TORCH_CPU_INDEX := https://download.pytorch.org/whl/cpu
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install --quiet --constraint constraints.txt
SOURCES := pyproject.toml CMakeLists.txt constraints.txt $(wildcard core/*.*)
COMPARE ?=

.PHONY: help compare test setup lint types native-test unit-test clean

help:
	@echo "make compare   set up, then train with several codecs side by side; results in results/compare"
	@echo "               (more options: make compare COMPARE='--seeds 5 --codec topk:k=0.001')"
	@echo "make test      set up, then run every check and test"

compare: setup
	$(BIN)/gradwire compare $(COMPARE)

test: lint types native-test unit-test

setup: .venv/.ready

# torch comes first and apart: on a machine whose package index has no CPU build, PyTorch's own index is asked.
.venv/.ready: $(SOURCES)
	@echo "setting up .venv (the first time takes some minutes)"
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'gradwire needs Python 3.11 or later')"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "pip>=25.1"
	$(PIP) torch || $(PIP) --extra-index-url $(TORCH_CPU_INDEX) torch
	$(PIP) --group build --group test
	$(PIP) --no-build-isolation --editable ".[experiments,flower,bench]"
	@touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: setup
	$(BIN)/mypy

# The kernels alone, under AddressSanitizer and UndefinedBehaviorSanitizer.
native-test: setup
	$(BIN)/cmake -S . -B build/native-test -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
		-DCMAKE_BUILD_TYPE=Debug -DGRADWIRE_TESTS=ON -DGRADWIRE_SANITIZE=ON > /dev/null
	$(BIN)/cmake --build build/native-test
	$(BIN)/ctest --test-dir build/native-test --output-on-failure

unit-test: setup
	$(BIN)/python -m pytest -q -n 2 --dist loadscope

clean:
	rm -rf build .venv results
