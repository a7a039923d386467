# GoQueue. Every target sets up `.venv` on its first run; later runs start at once.
# Choose an interpreter with `make PYTHON=/path/to/python3.12 ...`.

MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup demo demo-log serve test check lint bench bench-broker bench-delivery bench-transactions bench-observability bench-stalls bench-spark soak soak-sim soak-transactions soak-spark fuzz test-exhaustive test-declarative surface sync-client spark-options topic-settings http-reference pictures hooks lock clean FORCE

# Shell settings of the caller that would run another Python or other modules.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONOPTIMIZE PYTEST_ADDOPTS

PYTHON ?= python3.11 python3.12 python3.13 python3.14 python3
SECONDS ?= 60
SEEDS ?= 10
HOURS ?= 1
WORKERS ?= 3

venv := .venv/bin/python
pip := $(venv) -m pip --disable-pip-version-check --no-input --quiet
# Three workers on two cores: many tests wait for processes. Those on Spark share one of them.
pytest := $(venv) -m pytest -n $(WORKERS) --dist loadgroup -q
records := src/goqueue/records
has_python = $(shell find $(1) -name '*.py' 2>/dev/null | head -n 1)
sources := $(foreach folder,src tests bench demo deploy docs fuzz scripts soak,$(if $(call has_python,$(folder)),$(folder))) setup.py
install = $(pip) install --verbose --no-deps --no-build-isolation --editable .
wheel := src/goqueue/delivery/wheel
compiled_from := $(wildcard $(foreach part,$(records)/* $(records)/arrow/* $(records)/tracing/* $(wheel)/* src/goqueue/model/digits,$(part).py $(part).pxd $(part).h) setup.py pyproject.toml)

# $(call quietly,name,command): one log file, shown only when the command fails.
quietly = mkdir -p build && { { $(2) ; } >build/$(1).log 2>&1 || { cat build/$(1).log >&2; exit 1; }; }

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target words; do \
		printf '  make %-20s %s\n' "$$target" "$$words"; done

# ---- set-up --------------------------------------------------------------------------------

setup: .venv/.built ## create .venv, install the locked packages, build the extensions

# A venv in a tree that was moved or copied, or whose Python is gone, points elsewhere: create it again.
ifneq ($(shell $(venv) -c '' 2>/dev/null && cat .venv/.home 2>/dev/null),$(CURDIR))
.venv/.home: FORCE
endif

# Not every python3 on a PATH can create a venv (a shim without its versions, a distribution's
# Python without ensurepip), so each is tried in turn and the first that succeeds is used.
.venv/.home:
	@mkdir -p build; : >build/venv.log; \
	for name in $(PYTHON); do \
		case $$name in */*) places=$$name;; *) places=$$(printf '%s' "$$PATH" | tr ':' '\n' | sed "s|\$$|/$$name|");; esac; \
		for python in $$places; do \
			[ -x "$$python" ] || continue; \
			"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >>build/venv.log 2>&1 || continue; \
			rm -rf .venv; \
			"$$python" -m venv .venv >>build/venv.log 2>&1 || continue; \
			$(venv) -m pip --version >>build/venv.log 2>&1 || continue; \
			echo "setup: $$($(venv) --version) in .venv"; \
			printf '%s\n' '$(CURDIR)' >$@; exit 0; \
		done; \
	done; \
	rm -rf .venv; \
	echo "setup: no Python >= 3.11 on PATH can create a virtual environment" \
		"(on Debian: apt install python3-venv); choose one with: make PYTHON=/path/to/python3.11" >&2; \
	exit 1

.venv/.deps: .venv/.home requirements.lock
	@echo "setup: installing the packages of requirements.lock"
	@$(call quietly,deps,$(pip) install --require-hashes --requirement requirements.lock)
	@touch $@

# The extensions are optional: without a compiler that finds Python.h the same sources run interpreted.
# With one, a build that fails is our bug and stops here. Old extensions go first in either case.
.venv/.built: .venv/.deps $(compiled_from)
	@find src -name '*.so' -delete
	@include=$$($(venv) -c 'import sysconfig; print(sysconfig.get_path("include"))'); \
	default=$$($(venv) -c 'import sysconfig; print(sysconfig.get_config_var("CC") or "cc")'); \
	for compiler in "$${CC:-$$default}" "$${CC:-cc}" "$${CC:-clang}" none; do \
		echo '#include <Python.h>' | $$compiler -fsyntax-only -x c -I"$$include" - 2>/dev/null && break; \
	done; \
	if [ "$$compiler" = none ]; \
	then echo "setup: no C compiler with Python.h found: GoQueue runs interpreted, slower but complete"; \
		$(call quietly,build,CC=false $(install)); \
	else echo "setup: building the extensions"; \
		$(call quietly,build,CC="$$compiler" $(install)) && ls $(records)/*.so >/dev/null 2>&1 && ! grep -q 'building extension .* failed' build/build.log || \
		{ echo "setup: the extensions did not build although $$compiler works: see build/build.log" >&2; exit 1; }; \
	fi
	@touch $@

# ---- use -----------------------------------------------------------------------------------

demo: setup ## tour of a node: publish, replay, dead letters, delays, kill -9, pipelines
	@$(venv) -m demo.broker_demo

demo-log: setup ## tour of the log alone: write, kill, torn write, recovery, flipped bit
	@$(venv) -m demo.log_demo

serve: setup ## run a node on http://127.0.0.1:8080 or the next free port
	@.venv/bin/goqueue dev

bench: setup ## benchmark the log against raw system calls
	@$(venv) bench/log/run.py

bench-broker: setup ## benchmark a node over HTTP, the SDK, and a node with 10,000 partitions
	@$(venv) bench/broker/run.py

soak: setup ## kill a node under load for SECONDS=600; check for lost and repeated messages
	@$(venv) -m soak --seconds $(if $(filter command line environment,$(origin SECONDS)),$(SECONDS),600) --kill-every 20

soak-sim: setup ## run new simulator seeds for HOURS=1; failures go to build/soak-sim
	@$(venv) -m soak.simulation --hours $(HOURS)

soak-transactions: setup ## copy 100,000 messages exactly once while node and workers are killed
	@$(venv) -m soak.copies --mode stream --blow-every 1.5
	@$(venv) -m soak.copies --mode queue

soak-spark: setup ## copy 100,000 rows with Spark, ten times, while executor, driver and node are killed
	@$(venv) -m soak.spark

bench-delivery: setup ## benchmark delayed messages, priorities and backlogs
	@$(venv) bench/delivery/run.py

bench-transactions: setup ## benchmark idempotent producers, transactions and recovery
	@$(venv) bench/transactions/run.py

bench-spark: setup ## benchmark the Spark connector against Spark's own sources and sinks
	@$(venv) bench/spark/run.py

bench-observability: setup ## benchmark the cost of metrics and traces
	@$(venv) bench/observability/run.py

bench-stalls: setup ## measure how long other clients wait during large operations
	@$(venv) bench/stalls/run.py

# ---- proof ---------------------------------------------------------------------------------

# The packages with compiled code, and those that use them directly.
with_twins := records model delivery log storage

# The interpreted run comes first, so that the last line counts all tests.
test: setup lint ## run everything CI runs: lint and all tests, compiled and interpreted
	@if ls $(records)/*.so >/dev/null 2>&1; then \
		echo "test: interpreted"; GOQUEUE_NO_EXTENSIONS=1 $(pytest) $(foreach room,$(with_twins),tests/unit/$(room)) && \
		echo "test: compiled"; else echo "test: interpreted (there are no extensions)"; fi
	@$(pytest) tests

check: setup lint ## run before a push: lint, tidy, unit tests, ten simulator seeds
	@$(pytest) tests/test_tidy.py tests/test_layers.py tests/unit
ifneq ($(wildcard src/goqueue/sim/__main__.py),)
	@$(venv) -W error -m goqueue.sim --seeds $(SEEDS)
endif

lint: setup
	@$(venv) -m ruff format --quiet --check $(sources) || { echo "lint: run .venv/bin/ruff format" >&2; exit 1; }
	@$(venv) -m ruff check --quiet $(sources)
	@$(venv) -m mypy --no-error-summary $(sources)
	@$(call quietly,layers,.venv/bin/lint-imports)
	@echo "lint: format, ruff, mypy and layers are clean"

test-exhaustive: setup ## run the tests that are too long for `make test`
	@GOQUEUE_EXHAUSTIVE=1 $(pytest) tests/exhaustive tests/conformance tests/simulation/test_planted_faults.py \
		tests/integration/test_soak.py tests/integration/test_kill_nine.py
	@GOQUEUE_EXHAUSTIVE=1 $(pytest) -m long tests/unit tests/integration

test-declarative: setup ## run the Spark Declarative Pipelines example (installs Spark Connect)
	@$(call quietly,declarative,$(pip) install --require-hashes --requirement requirements-declarative.lock)
	@$(pytest) tests/integration/declarative

fuzz: setup ## fuzz the record decoder for SECONDS=60
	@$(call quietly,fuzz,$(pip) install --require-hashes --requirement requirements-fuzz.lock)
	@mkdir -p build/fuzz
	@$(venv) fuzz/fuzz_records.py -max_total_time=$(SECONDS) -artifact_prefix=build/fuzz/ build/fuzz

# ---- upkeep --------------------------------------------------------------------------------

surface: setup ## accept the current public names (tests/public_surface.json)
	@$(venv) -m tests.tidy.surface

sync-client: setup ## write the generated part of goqueue.client.sync from the async client
	@$(venv) -m scripts.sync_client

spark-options: setup ## generate docs/reference/spark-options.md
	@$(venv) -c 'from goqueue.spark.option_table import reference; print(reference(), end="")' >docs/reference/spark-options.md

topic-settings: setup ## write the SDK's types and docs/reference/topic-settings.md from the rows of the settings
	@$(venv) -m scripts.topic_settings

http-reference: setup ## write docs/reference/http-api.md from the OpenAPI document
	@$(venv) -m scripts.http_reference

pictures: setup ## draw the pictures in docs/pictures again
	@mkdir -p build && $(venv) docs/pictures/trace_picture.py >build/trace.svg && mv build/trace.svg docs/pictures/trace.svg

hooks: ## check commit subjects with a git hook in this clone
	@git config core.hooksPath .githooks

lock: .venv/.home ## resolve the dependencies again into the lock files
	@test -x build/lock/bin/uv || { $(venv) -m venv build/lock && build/lock/bin/python -m pip install --quiet 'uv>=0.13'; }
	@$(call resolve,--extra dev,requirements.lock)
	@$(call resolve,--extra fuzz --constraint requirements.lock,requirements-fuzz.lock)
	@$(call resolve,--extra declarative --constraint requirements.lock,requirements-declarative.lock)

resolve = build/lock/bin/uv pip compile pyproject.toml $(1) --output-file $(2) --quiet --no-config --system-certs \
	--upgrade --universal --python-version 3.11 --generate-hashes --custom-compile-command 'make lock'

clean: ## remove build products; data directories stay
	@rm -rf .venv build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find src -name '*.so' -delete
	@rm -f $(patsubst %.py,%.c,$(wildcard $(records)/*.py $(records)/*/*.py))
	@find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
