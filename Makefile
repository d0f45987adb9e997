# Every target sets up what it needs. Staleness is decided here, by stamps; the work is done in scripts/setup.

# Yours to set: the interpreter that .venv is made of; OFF to let warnings pass; arguments for pytest or the demo.
export PYTHON ?= python3
export WERROR ?= ON
ARGS ?=
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell getconf _NPROCESSORS_ONLN)

BIN := .venv/bin
DEPS := .venv/.stamp-deps
PACKAGE := build/.stamp-package
FORMATTED = $(shell find native tests/native tests/fuzz benchmarks/native -name '*.h' -o -name '*.cc' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help setup demo docs test test-native test-python cluster-tests check check-ruff check-mypy check-clang-format check-layers \
        format stubs bench failures chaos sanitize wheel soak audit clean distclean FORCE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

# --- set-up ---

setup: $(PACKAGE) ## create .venv, install pinned packages, build the native module

$(DEPS): constraints.txt
	@scripts/setup deps
	@touch $@

# An editable install: Python sources are used in place, so only native sources and the set of files can make it stale.
# The stamp bears the time at which the build began: what is edited meanwhile is built by the next run.
$(PACKAGE): $(DEPS) pyproject.toml CMakeLists.txt $(wildcard cmake/*.cmake) build/sources.txt \
            $(shell find native -name '*.h' -o -name '*.cc' 2>/dev/null)
	@touch $@.begun
	@scripts/setup package
	@mv $@.begun $@

# Rewritten only when a file comes or goes, which time stamps of files do not tell.
build/sources.txt: FORCE
	@mkdir -p build
	@find native python -name '*.py' -o -name '*.h' -o -name '*.cc' | LC_ALL=C sort > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# --- use ---

demo: $(PACKAGE) ## train wide & deep with one server and two workers, and show it on a page (ARGS="--mode sync")
	@$(BIN)/flota launch --server_num=1 --worker_num=2 --log_dir=build/demo --dashboard examples/wide_and_deep.py $(ARGS)
	@printf '\n%s\n' "$$(grep '^test AUC' build/demo/workerlog.0)"
	@printf 'next: %s\n      %s\n      %s\n      %s\n' \
	  'the logs of each process are in build/demo' \
	  'make demo ARGS="--mode sync", or "--mode geo": the other modes' \
	  'make demo ARGS="--epochs 100": time to look around on its page (Ctrl-C ends it)' \
	  'examples/README.md: this and other examples, alone and with servers; README.md: all the rest'

docs: $(DEPS) ## build the documentation's site in build/site; a page or link that is wrong is an error (ARGS=serve: shows it)
	@test -x $(BIN)/mkdocs || { echo 'make docs: mkdocs-material needs Python 3.11.5 or newer; set up with such a one: make distclean, make setup PYTHON=…'; exit 1; }
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(if $(strip $(ARGS)),$(ARGS),build)

bench: $(PACKAGE) ## run every benchmark
	@scripts/setup target flota_bench
	@set -e; for file in benchmarks/[a-z]*.py; do echo "[bench] $$file"; $(BIN)/python $$file; done

test: test-native test-python ## run the native and the Python tests

test-native: $(PACKAGE) ## run the native tests alone
	@scripts/setup target flota_tests
	@$(BIN)/ctest --test-dir build/native --output-on-failure

test-python: $(PACKAGE) ## run the Python tests alone (ARGS="-k name": some of them, one after another)
ifeq ($(strip $(ARGS)),)
	@scripts/test
else
	@$(BIN)/python -m pytest $(ARGS)
endif

cluster-tests: $(PACKAGE) ## run the tests of jobs on several hosts (installs sshd, OpenMPI, Slurm)
	@scripts/engines
	@$(BIN)/python -m pytest tests/engines $(ARGS)

failures: $(PACKAGE) ## run the whole kill matrix (an hour) and write docs/failures.md (ARGS="--only sync kill")
	@$(BIN)/python tests/cluster/failures.py run $(ARGS)
	@$(BIN)/python tests/cluster/failures.py page

chaos: $(PACKAGE) ## run 200 random schedules of kills (ARGS="--seed 17": one of them)
	@$(BIN)/python tests/cluster/chaos.py $(ARGS)

soak: $(PACKAGE) ## train for 30 minutes with a kill every minute, and check what came of it (ARGS="--minutes 2 --kill_every 10")
	@$(BIN)/python tests/cluster/soak.py $(ARGS)

audit: $(PACKAGE) ## run what shows each promise (hours) and write docs/status.md (ARGS="--only paddle")
	@$(BIN)/python tests/audit/audit.py run $(ARGS) || true
	@$(BIN)/python tests/audit/audit.py page

sanitize: $(DEPS) ## run the native tests under ASan+UBSan and under TSan
	@scripts/setup sanitize address build/asan
	@UBSAN_OPTIONS=print_stacktrace=1 $(BIN)/ctest --test-dir build/asan --output-on-failure
	@scripts/setup sanitize thread build/tsan
	@TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 $(BIN)/ctest --test-dir build/tsan --output-on-failure

wheel: $(DEPS) ## build dist/*.whl
	@scripts/setup wheel

# --- checks: the pre-commit hooks run these same targets ---

check: check-ruff check-mypy check-clang-format check-layers ## lint, types, formatting, import layers

check-ruff: $(DEPS)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

check-mypy: $(DEPS)
	@$(BIN)/mypy

check-clang-format: $(DEPS)
	@$(BIN)/clang-format --dry-run -Werror $(FORMATTED)

check-layers: $(DEPS)
	@$(BIN)/python -m pytest -q --noconftest tests/test_layers.py

format: $(DEPS) ## rewrite sources as `make check` wants them
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format
	@$(BIN)/clang-format -i $(FORMATTED)

stubs: $(PACKAGE) ## write python/flota/_core.pyi from the built module
	@$(BIN)/python -m nanobind.stubgen -q -m flota._core -o python/flota/_core.pyi

clean: ## remove what was built
	@rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

distclean: clean ## remove .venv also
	@rm -rf .venv
