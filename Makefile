# GoQueue. Every target sets up `.venv` on its first run; later runs start at once.
# Choose an interpreter with `make PYTHON=/path/to/python3.12 ...`.

MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Every target with a help text is a command, not a file.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' Makefile) lint linters interpreted tests FORCE

# Shell settings of the caller that would run another Python or other modules, or make each of the
# hundreds of processes that tests start compile every module anew.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONOPTIMIZE PYTHONDONTWRITEBYTECODE PYTEST_ADDOPTS

PYTHON ?= python3.11 python3.12 python3.13 python3.14 python3
SECONDS ?= 60
SEEDS ?= 10
HOURS ?= 1
WORKERS ?= 4

venv := .venv/bin/python
# uv where there is one: faster. Modules are compiled to bytecode when they are first imported.
uv := $(shell command -v uv 2>/dev/null)
pip_install := $(venv) -m pip install --disable-pip-version-check --no-input --progress-bar off --no-compile
install := $(if $(uv),uv pip install --no-progress --python $(venv),$(pip_install))
install_locked = scripts/progress.sh $(1) "installing $(2)" $(install) --require-hashes --requirement $(3)
# Four workers on two cores: many tests wait for processes, or for a lease to end. Those on Spark share one of them.
pytest := $(venv) -m pytest -n $(WORKERS) --dist loadgroup -q
records := src/goqueue/records
has_python = $(shell find $(1) -name '*.py' 2>/dev/null | head -n 1)
sources := $(foreach folder,src tests bench demo deploy docs fuzz scripts soak,$(if $(call has_python,$(folder)),$(folder))) setup.py
declarations := $(shell find src -name '*.pxd')
compiled_from := $(declarations) $(wildcard $(declarations:.pxd=.py) $(records)/*.h) setup.py pyproject.toml

# $(call quietly,name,command): one log file, shown only when the command fails.
quietly = mkdir -p build && { { $(2) ; } >build/$(1).log 2>&1 || { cat build/$(1).log >&2; exit 1; }; }

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target words; do \
		printf '  make %-20s %s\n' "$$target" "$$words"; done

# ---- set-up --------------------------------------------------------------------------------

# Packages are unpacked while the extensions are compiled: both need only the build tools.
setup: .venv/.tools ## create .venv, install what a node, its tests and its tools need, build the extensions
	@$(MAKE) --silent --jobs=2 .venv/.deps .venv/.built

# A venv in a tree that was moved or copied, or whose Python is gone, points elsewhere: create it again.
ifneq ($(shell $(venv) -c '' 2>/dev/null && cat .venv/.home 2>/dev/null),$(CURDIR))
.venv/.home: FORCE
endif

.venv/.home:
	@scripts/create_venv.sh .venv $(PYTHON)
	@printf '%s\n' '$(CURDIR)' >$@

.venv/.tools: .venv/.home requirements-build.lock
	@$(call install_locked,tools,the build tools,requirements-build.lock)
	@touch $@

.venv/.deps: .venv/.tools requirements.lock
	@$(call install_locked,deps,$(shell grep -c == requirements.lock) packages,requirements.lock)
	@touch $@

# Spark, Java and Arrow are three quarters of a gigabyte: only what runs on Spark waits for them.
.venv/.spark: .venv/.tools requirements-spark.lock
	@$(call install_locked,spark,Spark and Java and Arrow (760 MB),requirements-spark.lock)
	@touch $@

.venv/.lint: .venv/.tools requirements-lint.lock
	@$(call install_locked,lint,mypy,requirements-lint.lock)
	@touch $@

setup-spark: setup .venv/.spark ## add what Spark needs (760 MB); `make demo` and `make test` do this themselves

# Without a compiler that finds Python.h the same sources run interpreted. Old extensions go first.
.venv/.built: .venv/.tools $(compiled_from)
	@find src -name '*.so' -delete
	@GOQUEUE_NO_EXTENSIONS= scripts/progress.sh build "building the extensions" \
		$(install) --no-deps --no-build-isolation --editable .
	@ls $(records)/*.so >/dev/null 2>&1 || \
		echo "setup: no C compiler with Python.h found: GoQueue runs interpreted, slower but complete"
	@touch $@

# ---- use -----------------------------------------------------------------------------------

demo: setup-spark ## tour of a node: publish, replay, dead letters, delays, kill -9, pipelines
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
	@$(venv) -m soak.copies --nodes 3 --mode stream --messages 30000 --blow-every 1.5
	@$(venv) -m soak.copies --nodes 3 --mode queue --messages 30000 --blow-every 1.5

soak-deploys: setup ## replace and kill workers under load for SECONDS=600; check for lost and repeated work
	@$(venv) -m soak.deploys --seconds $(if $(filter command line environment,$(origin SECONDS)),$(SECONDS),600)

soak-cluster: setup ## kill, stop and cut off nodes of a cluster under load for SECONDS=600; compare all copies
	@$(venv) -m soak.cluster --seconds $(if $(filter command line environment,$(origin SECONDS)),$(SECONDS),600)

soak-upgrade: setup ## replace the nodes of a cluster by this version under load, one at a time; check what clients saw
	@$(venv) -m soak.upgrade

soak-spark: setup-spark ## copy 100,000 rows with Spark, ten times, while executor, driver and node are killed
	@$(venv) -m soak.spark

bench-delivery: setup ## benchmark delayed messages, priorities and backlogs
	@$(venv) bench/delivery/run.py

bench-cli: setup ## measure how long the command line takes to start
	@$(venv) bench/cli/run.py

bench-transactions: setup ## benchmark idempotent producers, transactions and recovery
	@$(venv) bench/transactions/run.py

bench-spark: setup-spark ## benchmark the Spark connector against Spark's own sources and sinks
	@$(venv) bench/spark/run.py

bench-observability: setup ## benchmark the cost of metrics and traces
	@$(venv) bench/observability/run.py

bench-stalls: setup ## measure how long other clients wait during large operations
	@$(venv) bench/stalls/run.py

bench-groups: setup ## measure rebalances of cooperative and eager groups, and what they interrupt
	@$(venv) bench/groups/run.py

bench-cluster: setup ## measure links between nodes, and how soon a cluster has a controller
	@$(venv) bench/cluster/run.py

bench-operations: setup ## measure the first message after pip install, set-up, memory, descriptors, the access log
	@$(venv) bench/operations/run.py

bench-security: setup ## benchmark TLS against plain HTTP, certificate reloads and floods of handshakes
	@$(venv) bench/security/run.py

bench-schemas: setup ## benchmark a full schema registry, compatibility checks and validation
	@$(venv) bench/schemas/run.py

bench-grpc: setup ## benchmark gRPC: streams, subscriptions, single calls, beside HTTP
	@$(venv) bench/grpc/run.py

bench-peers: setup ## benchmark a node beside Redis, RabbitMQ, NATS and Kafka, as far as they are installed
	@$(venv) bench/peers/run.py

setup-kafka: setup ## fetch what `make bench-peers` needs to measure Kafka: its jars (44 MB, by Maven) and its client
	@mvn --quiet --batch-mode --file bench/peers/kafka.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/build/kafka
	@$(call quietly,kafka,$(install) --require-hashes --requirement requirements-peers.lock)

# ---- proof ---------------------------------------------------------------------------------

# Tests of compiled modules, and of some that stand on them; `make test-exhaustive` adds the others.
# What has no compiled code below it would only run a second time.
with_twins := records model delivery/wheel delivery/test_delays.py delivery/test_delays_machine.py \
	delivery/test_ranges.py log storage/test_log_files.py storage/test_storage_machine.py \
	gateways/test_receipts.py runtime/test_file_commits.py schemas/test_avro_walk.py schemas/test_avro_validator.py
above_twins := storage

# The linters run beside the tests: the slowest uses one core for a minute and a half.
test: setup-spark .venv/.lint ## run everything CI runs: lint and all tests, compiled and interpreted
	@$(MAKE) --silent --jobs=2 linters tests

# The interpreted run comes first, so that the last line counts all tests.
tests: interpreted
	@$(pytest) tests

# Collecting compiles all tests, once and beside the slowest linter: else each worker would do so.
interpreted:
	@if ls $(records)/*.so >/dev/null 2>&1; then \
		echo "test: interpreted"; GOQUEUE_NO_EXTENSIONS=1 $(pytest) $(with_twins:%=tests/unit/%) && \
		echo "test: compiled"; else echo "test: interpreted (there are no extensions)"; fi
	@$(call quietly,collect,$(venv) -m pytest -qq --collect-only tests)

check: setup lint ## run before a push: lint, tidy, unit tests, ten simulator seeds
	@$(pytest) tests/test_tidy.py tests/test_layers.py tests/unit
ifneq ($(wildcard src/goqueue/sim/__main__.py),)
	@$(venv) -W error -m goqueue.sim --seeds $(SEEDS)
endif

lint: setup .venv/.spark .venv/.lint
	@$(MAKE) --silent linters

linters:
	@$(venv) -m ruff format --quiet --check $(sources) || { echo "lint: run .venv/bin/ruff format" >&2; exit 1; }
	@$(venv) -m ruff check --quiet $(sources)
	@$(venv) -m mypy --no-error-summary $(sources)
	@$(call quietly,layers,.venv/bin/lint-imports)
	@echo "lint: format, ruff, mypy and layers are clean"

test-exhaustive: setup-spark ## run the tests that are too long for `make test`
	@GOQUEUE_EXHAUSTIVE=1 $(pytest) tests/exhaustive tests/conformance tests/simulation \
		tests/integration/test_soak.py tests/integration/test_soak_deploys.py tests/integration/test_soak_cluster.py \
		tests/integration/test_kill_nine.py
	@GOQUEUE_EXHAUSTIVE=1 $(pytest) -m 'long or hypothesis' tests/unit tests/hostile tests/integration tests/development
	@GOQUEUE_NO_EXTENSIONS=1 $(pytest) $(above_twins:%=tests/unit/%)

test-clients: setup ## fetch the packages of the clients in Go and TypeScript and run their tests; `make test` does where they are there
	@if command -v npm >/dev/null; then cd clients/typescript && npm ci --no-audit --no-fund --silent && npm run --silent build; fi
	@if command -v go >/dev/null; then cd clients/go && go mod download; fi
	@GOQUEUE_CLIENTS=1 $(pytest) -n 1 tests/integration/test_grpc_conformance.py tests/integration/test_client_kills.py

test-registry: setup ## run the serializers of confluent-kafka, unmodified, against a node (installs them)
	@$(call quietly,registry,$(install) --require-hashes --requirement requirements-registry.lock)
	@$(pytest) -n 1 tests/conformance/test_confluent.py

test-declarative: setup-spark ## run the Spark Declarative Pipelines example (installs Spark Connect)
	@$(call quietly,declarative,$(install) --require-hashes --requirement requirements-declarative.lock)
	@$(pytest) tests/integration/declarative

fuzz: setup ## fuzz the record decoder for SECONDS=60
	@$(call quietly,fuzz,$(install) --require-hashes --requirement requirements-fuzz.lock)
	@mkdir -p build/fuzz
	@$(venv) fuzz/fuzz_records.py -max_total_time=$(SECONDS) -artifact_prefix=build/fuzz/ build/fuzz

# ---- upkeep --------------------------------------------------------------------------------

surface: setup ## accept the current public names (tests/public_surface.json)
	@$(venv) -m tests.tidy.surface

sync-client: setup ## write the generated part of goqueue.client.sync from the async client
	@$(venv) -m scripts.sync_client

spark-options: setup-spark ## generate docs/reference/spark-options.md
	@$(venv) -c 'from goqueue.spark.option_table import reference; print(reference(), end="")' >docs/reference/spark-options.md

topic-settings: setup ## write the SDK's types and docs/reference/topic-settings.md from the rows of the settings
	@$(venv) -m scripts.topic_settings

protocol: setup ## write what is generated from proto/: the messages of gRPC, their types and reference, what may not break
	@$(venv) -m scripts.protocol

go-client: setup ## write clients/go/gen from proto/ (needs protoc, protoc-gen-go and protoc-gen-go-grpc)
	@cd proto && protoc -I. --go_out=../clients/go --go_opt=module=github.com/goqueue/goqueue/clients/go \
		--go-grpc_out=../clients/go --go-grpc_opt=module=github.com/goqueue/goqueue/clients/go goqueue/v1/*.proto

log-events: setup ## write docs/reference/log-events.md from the table of log events
	@$(venv) -m scripts.log_events

http-reference: setup ## write docs/reference/http-api.md from the OpenAPI document
	@$(venv) -m scripts.http_reference

error-codes: setup ## write docs/reference/errors.md from the table of codes
	@$(venv) -m scripts.error_reference

metrics-reference: setup ## write docs/reference/metrics.md from the exported families
	@$(venv) -m scripts.metrics_reference

docs: setup ## build the documentation as a site into build/site and check its links
	@$(venv) -m scripts.docs_site

python-reference: setup ## write docs/reference/python-api.md from the sources of the SDK
	@$(venv) -m scripts.python_reference

pictures: setup ## draw the pictures in docs/pictures again
	@mkdir -p build && $(venv) docs/pictures/trace_picture.py >build/trace.svg && mv build/trace.svg docs/pictures/trace.svg
	@$(venv) docs/pictures/delivery_pictures.py

hooks: ## check commit subjects with a git hook in this clone
	@git config core.hooksPath .githooks

wheels: setup ## build the source distribution, a compiled and a pure wheel into dist
	@rm -rf dist
	@$(call quietly,wheels,$(venv) -m build --no-isolation && GOQUEUE_NO_EXTENSIONS=1 $(venv) -m build --no-isolation)
	@$(venv) -m scripts.supply_chain.sbom dist/goqueue.cdx.json
	@ls dist

audit: setup ## ask the package index for known vulnerabilities of the locked packages (needs a network)
	@$(venv) -m scripts.supply_chain.audit $(wildcard requirements*.lock)

sbom: setup ## write a bill of materials (CycloneDX) of what a node needs to dist/goqueue.cdx.json
	@mkdir -p dist && $(venv) -m scripts.supply_chain.sbom dist/goqueue.cdx.json

lock: .venv/.home ## resolve the dependencies again into the lock files
	@test -x build/lock/bin/uv || { $(venv) -m venv build/lock && build/lock/bin/python -m pip install --quiet 'uv>=0.13'; }
	@$(call resolve,pyproject.toml --extra grpc --extra otlp --extra schemas --extra tls --group test,requirements.lock)
	@$(call resolve,pyproject.toml --constraint requirements.lock,requirements-run.lock)
	@$(call resolve,pyproject.toml --extra spark --group spark-test --constraint requirements.lock,requirements-spark.lock)
	@$(call resolve,--group lint --constraint requirements.lock --constraint requirements-spark.lock,requirements-lint.lock)
	@$(call resolve,--group build --constraint requirements.lock,requirements-build.lock)
	@$(call resolve,--group fuzz --constraint requirements.lock,requirements-fuzz.lock)
	@$(call resolve,--group peers --constraint requirements.lock,requirements-peers.lock)
	@$(call resolve,--group registry --constraint requirements.lock,requirements-registry.lock)
	@$(call resolve,pyproject.toml --extra declarative --constraint requirements.lock,requirements-declarative.lock)

resolve = build/lock/bin/uv pip compile $(1) --output-file $(2) --quiet --no-config --system-certs \
	--upgrade --universal --python-version 3.11 --generate-hashes --custom-compile-command 'make lock'

clean: ## remove build products; data directories stay
	@rm -rf .venv build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find src -name '*.so' -delete
	@rm -f $(patsubst %.py,%.c,$(wildcard $(records)/*.py $(records)/*/*.py))
	@find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
