# One command for each thing a contributor does. `make help` lists them.

PYTHON ?= python3
export PYTHON
ARGS ?=

# Without compiled modules every process compiles Airflow and all tests anew, which takes longer than
# most of them run.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
INSTALLED := .venv/.installed
SPARK_4 := .runtimes/spark-4.3/.installed
SPARK_3 := .runtimes/spark-3.5/.installed
S3A := .runtimes/s3a/.installed
ICEBERG := .runtimes/iceberg/.installed
STATEFUL := .runtimes/spark-4.3/.stateful
DEPLOYED := .runtimes/deployment/.installed
SITE := .runtimes/docs/.installed
CLASSES_4 := .runtimes/spark-4.3/.classes
CLASSES_3 := .runtimes/spark-3.5/.classes

# The unit tests make and remove some hundred thousand small files: where memory can hold them, that
# takes a fifth of the time off.
IN_MEMORY := $(shell [ "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 2000000 ] 2>/dev/null && echo TMPDIR=/dev/shm)

# What needs no other is made at the same time: installing is mostly one core's work.
MAKEFLAGS += --jobs=4

.DEFAULT_GOAL := help
.PHONY: help setup demo deployment soak lint check test costs bench chaos faults fuzz judge page java audit dist docs clean

help: ## Show this list.
	@sed -nE 's/^([a-z]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 10

setup: java $(INSTALLED) $(SPARK_4) $(STATEFUL) $(SPARK_3) $(CLASSES_4) $(CLASSES_3) ## Make .venv and the Spark runtimes of the tests; HASHES=1 takes only PyPI's own files into .venv.

demo: java $(INSTALLED) $(SPARK_4) $(if $(PIPELINE),$(STATEFUL)) $(if $(filter lake,$(PIPELINE)),$(SPARK_3) $(ICEBERG)) $(CLASSES_4) ## Run a stream in a real Airflow; PIPELINE=fraud runs an example, ARGS=--once a whole story.
	@exec $(BIN)/python -m demo.run $(if $(PIPELINE),--pipeline $(PIPELINE)) $(ARGS)

deployment: setup $(S3A) $(DEPLOYED) ## Run a real deployment with PostgreSQL and Celery; PROFILE=mariadb runs another, ARGS="--cells all:all" its acts.
	@exec .runtimes/deployment/bin/python -m tests.deployment.run $(if $(PROFILE),--profile $(PROFILE)) $(ARGS)

soak: setup $(S3A) $(DEPLOYED) ## Run a deployment for two hours and see which figures grow; ARGS="--minutes 20 --streams 3".
	@exec .runtimes/deployment/bin/python -m tests.deployment.soak $(ARGS)

LINT := $(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports

lint: $(INSTALLED) ## Format, lint, types, rooms.
	$(LINT)

# Files that take more than this many seconds by tests/costs.txt are left to `make test`. mypy uses one core, and so does
# the collection of the tests; three processes on two cores, because many tests wait.
AT_MOST := 0.5

check: $(INSTALLED) ## The same, and the unit tests but for the slow files.
	@{ $(LINT); } > .test-lint.log 2>&1 & lint=$$!; \
	FORKS=3 $(IN_MEMORY) $(BIN)/python -m pytest -p tests.costs -p tests.forks --at-most $(AT_MOST) tests/unit -q \
	-o tmp_path_retention_policy=failed $(ARGS); \
	unit=$$?; wait $$lint; lint=$$?; cat .test-lint.log; exit $$((unit | lint))

# Three legs, which keep two cores busy to the end: whole Airflows, one after the other, which wait most and go before
# the others; unit tests in three processes, because many wait; and lint. All the rest goes file by file from a queue of
# which every leg takes when it has done its own. One JVM or a stream's few at a time in each.
AIRFLOWS := $(wildcard tests/system/test_*.py)
QUEUE := .test-queue
REST := env TEST_QUEUE=$(QUEUE) nice -n 5 $(BIN)/python -m pytest -p tests.costs -p tests.shared_queue \
  tests/integration -q --durations=20

test: setup $(S3A) $(ICEBERG) ## Everything, with real Spark, real stores and a real Airflow; .test-*.log grow meanwhile.
	@rm -rf $(QUEUE) .test-costs.txt; mkdir $(QUEUE); \
	(scripts/leg.sh airflow $(BIN)/python -m pytest -p tests.costs $(AIRFLOWS) -q --durations=20; own=$$?; \
	scripts/leg.sh rest-1 $(REST); exit $$((own | $$?))) & legs=$$!; \
	(scripts/leg.sh unit env FORKS=3 $(IN_MEMORY) nice -n 5 $(BIN)/python -m pytest -p tests.costs -p tests.forks tests/unit \
	-q -o tmp_path_retention_policy=failed; own=$$?; \
	scripts/leg.sh rest-2 $(REST); exit $$((own | $$?))) & legs="$$legs $$!"; \
	(scripts/leg.sh lint sh -c '$(LINT)'; own=$$?; scripts/leg.sh rest-3 $(REST); exit $$((own | $$?))) & \
	legs="$$legs $$!"; \
	failed=0; for leg in $$legs; do wait $$leg; failed=$$((failed | $$?)); done; rm -r $(QUEUE); exit $$failed

costs: ## Renew tests/costs.txt from the last `make test`.
	@$(BIN)/python -m tests.costs

bench: setup ## Measure; the figures go to the screen and say what they were measured on.
	@for program in launch listener restart triggers rules detection inspecting backup backup_batches gates cutover; do $(BIN)/python -m benchmarks.$$program || exit 1; done

chaos: setup ## Kill everything at random moments on real events and count what got lost or doubled.
	@exec $(BIN)/python -m tests.system.chaos $(ARGS)

faults: $(INSTALLED) ## Fail every durable write of every act with every fault; ARGS="launch --every 5".
	@$(IN_MEMORY) $(BIN)/python -m tests.system.faults $(ARGS)

fuzz: $(INSTALLED) ## Throw hostile bytes at every parser; FUZZ_EXAMPLES=20000 says how many at each.
	@FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-2000} $(IN_MEMORY) $(BIN)/pytest tests/unit/fuzz -q -n 2 --dist worksteal $(ARGS)

judge: setup ## Random histories against the judges, then a real driver that is slow in twenty ways.
	$(BIN)/python -m tests.system.judging $(ARGS)
	$(BIN)/python -m tests.system.alive

page: ## Fetch the libraries of the Streams page anew; its own modules need no build.
	@scripts/page.sh

java:
	@scripts/java.sh

# Hashes are those of PyPI's files. A mirror that builds or rebuilds packages serves others, so they are
# asked for on request only, and then nothing without one is installed.
$(INSTALLED): pyproject.toml airflow_streaming/__init__.py constraints.txt constraints-hashes.txt scripts/install.sh scripts/seed.txt
	@echo "Installing Airflow, the provider and the tools into .venv ..."
ifdef HASHES
	@scripts/install.sh .venv --require-hashes --requirement constraints-hashes.txt
	@scripts/install.sh .venv --no-deps --no-build-isolation --editable .
else
	@scripts/install.sh .venv --constraint constraints.txt --editable '.[dev]'
endif
	@touch $@

$(SPARK_4): scripts/install.sh | $(INSTALLED)
	@echo "Installing Spark 4.3 into .runtimes/spark-4.3 ..."
	@scripts/install.sh .runtimes/spark-4.3 pyspark==4.3.0 \
	  --constraint constraints.txt confluent-kafka prometheus-client
	@touch $@

# What state functions of users and declarative pipelines need beside Spark, and the client of PostgreSQL for the examples. Spark
# warns of pandas 3, and constraints.txt is Airflow's.
$(STATEFUL): scripts/install.sh | $(SPARK_4)
	@echo "Installing pandas, Arrow, psycopg and the client of Connect into .runtimes/spark-4.3 ..."
	@scripts/install.sh .runtimes/spark-4.3 'pandas==2.3.3' 'numpy==2.4.6' 'pyarrow==26.0.1' \
	  'protobuf==7.36.2' 'psycopg[binary]==3.3.9' 'grpcio==1.85.1' 'grpcio-status==1.85.1' \
	  'googleapis-common-protos==1.76.0' 'zstandard==0.25.0' 'pyyaml==6.0.4'
	@touch $@

# Spark 3.5 imports distutils, which Python 3.12 gave up; setuptools brings it back.
$(SPARK_3): scripts/install.sh | $(INSTALLED)
	@echo "Installing Spark 3.5 into .runtimes/spark-3.5 ..."
	@scripts/install.sh .runtimes/spark-3.5 pyspark==3.5.9 setuptools
	@touch $@

# A start of Spark takes two fifths less with its classes in an archive, and the tests start many. Without
# one everything runs as well.
$(CLASSES_4): | $(STATEFUL)
.runtimes/%/.classes: airflow_streaming/driver/jobs/class_loading.py | .runtimes/%/.installed java
	@$(BIN)/airflow-streaming prepare-runtime --runtime $(CURDIR)/.runtimes/$* || true
	@touch $@

# Hadoop's S3 file system as a Python package carries it; where it cannot be had, its tests are skipped.
$(S3A): scripts/install.sh | $(INSTALLED)
	@echo "Installing hadoop-aws into .runtimes/s3a ..."
	@scripts/install.sh .runtimes/s3a --no-deps bodo-iceberg-connector==2026.10 && touch $@ || \
	  echo "hadoop-aws cannot be had here; the tests of streams on S3 are skipped."

# A second environment with Airflow: executors, auth managers and database clients that a contributor rarely needs.
# Airflow's processes of a deployment start at once, so its modules are compiled once, before.
$(DEPLOYED): scripts/install.sh tests/deployment/requirements.txt | $(INSTALLED)
	@echo "Installing Airflow with Celery, FAB, S3 and database clients into .runtimes/deployment ..."
	@scripts/install.sh .runtimes/deployment --constraint constraints.txt \
	  --requirement tests/deployment/requirements.txt --editable '.[dev]'
	@.runtimes/deployment/bin/python -m compileall -q .runtimes/deployment/lib || true
	@touch $@

# Iceberg's connector for Spark 3.5, likewise; what its package leaves out is added.
$(ICEBERG): scripts/install.sh scripts/iceberg_jar.py | $(INSTALLED)
	@echo "Installing Iceberg's jar into .runtimes/iceberg ..."
	@scripts/install.sh .runtimes/iceberg --no-deps snowpark-connect-deps-iceberg==1.0.3 && \
	  $(BIN)/python scripts/iceberg_jar.py .runtimes/iceberg .runtimes/iceberg/iceberg-spark-runtime.jar && touch $@ || \
	  echo "Iceberg's jar cannot be had here; the tests of a lake are skipped."

# MkDocs and its theme, for the site alone.
$(SITE): scripts/install.sh scripts/docs-requirements.txt
	@echo "Installing MkDocs into .runtimes/docs ..."
	@scripts/install.sh .runtimes/docs --requirement scripts/docs-requirements.txt
	@touch $@

# Not --quiet: it hides the warnings that --strict counts.
docs: $(SITE) ## Build the site of docs into site/VERSION, without network; a dead link, anchor or menu entry fails it.
	@NO_MKDOCS_2_WARNING=1 .runtimes/docs/bin/mkdocs build --strict \
	  --site-dir site/$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' airflow_streaming/__init__.py) $(ARGS)

dist: $(INSTALLED) ## Build wheel, sdist and bill of materials into dist/.
	@scripts/dist.sh

audit: $(INSTALLED) ## Look for known vulnerabilities of what constraints.txt and scripts/seed.txt name.
	$(BIN)/uv tool run pip-audit@2.10.1 --strict --requirement constraints.txt --requirement scripts/seed.txt --no-deps --disable-pip

clean: ## Remove everything that make made.
	rm -rf dist site .venv .runtimes .demo .deployment .mypy_cache .ruff_cache .pytest_cache .test-*.log .test-costs.txt .nightly $(QUEUE)
