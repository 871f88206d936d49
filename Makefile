# `make` lists the targets. Everything runs from a fresh checkout: missing tools and packages are installed first.
# Variables: CLUSTER=context  use the cluster of this kubeconfig context instead of booting a local one
#            KEEP=1           keep the cluster and the demo's namespace at the end
#            SPARK=3.5        the Spark of the demo's job (default 4.1): 3.5, 4.0, 4.1, 4.2, 4.3
#            IMAGE=stock      run the demo's job in an image as Spark's own Dockerfiles make it, without StreamJob in it
#            SECONDS=3600     how long `make soak` runs
#            REGISTRY=… SOURCE_URL=… COSIGN_KEY=…   where `make release` is going to be published (dev/release)
SHELL := /bin/sh
.DEFAULT_GOAL := help
export PYTHONPATH := $(CURDIR)/operator
export CLUSTER KEEP SPARK IMAGE REGISTRY SOURCE_URL COSIGN_KEY COSIGN_PASSWORD

PYTHON := .venv/bin/python
LOCK := --universal --generate-hashes --no-emit-index-url --no-header -p 3.11 -q
OTHER_SPARKS := spark35 spark40 spark42 spark43
COMPILE := $(PYTHON) -m uv pip compile pyproject.toml $(LOCK)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: venv ## Boot a local Kubernetes, run a stream on it, stop, resume, drain, check
	@$(PYTHON) -m dev.demo

.PHONY: demo-down
demo-down: venv ## Remove what `make demo KEEP=1` left behind
	@$(PYTHON) -m dev.demo --down

.PHONY: cluster
cluster: ## Boot the local Kubernetes and print its kubeconfig
	@python3 -m dev.cluster up

.PHONY: cluster-down
cluster-down: ## Remove the local Kubernetes completely
	@python3 -m dev.cluster down

.PHONY: images
images: ## Build the product's images
	@python3 -m dev.images build
	@python3 -m dev.images build --target driver-s3

.PHONY: test
test: SPARKS = spark35 spark43
test: ready-to-test ## Run the tests that every commit must pass, end to end on a real cluster too (about half an hour on two cores)
	@dev/test.sh

.PHONY: test-all
test-all: SPARKS = $(OTHER_SPARKS)
test-all: ready-to-test ## Run every test in every combination (some hours; leave the machine alone)
	@dev/test.sh all

.PHONY: ready-to-test
ready-to-test: packages
	@$(MAKE) --no-print-directory -j 2 binaries environments SPARKS="$(SPARKS)"

# In parallel: compiling keeps the processor busy, while the environments mostly wait for downloads.
.PHONY: binaries environments
binaries:
	@test -n "$$CLUSTER" || python3 -m dev.cluster build
environments: ui
	@dev/bootstrap.sh && for v in $(SPARKS); do dev/bootstrap.sh $$v || exit; done && dev/bootstrap.sh servers

.PHONY: test-fast
test-fast: venv ## Run the tests that need neither a cluster nor Spark
	$(PYTHON) -m pytest -q -m "not cluster and not spark"

.PHONY: soak
soak: venv ## Run random plans in the simulated world for SECONDS (default 600), new plans each time
	@$(PYTHON) -m tests.world --seconds $(or $(SECONDS),600)

.PHONY: bench
bench: venv ## Run all benchmarks, about an hour (docs/benchmarks.md)
	@$(PYTHON) -m dev.bench

# Node runs here only: what it builds is in the packages. --ignore-scripts: no dependency runs anything when it is installed.
UI := operator/streamjob/cli/ui/page/index.html
.PHONY: ui
ui: $(UI) ## Build the page of `kubectl streamjob ui` into the package
$(UI): ui/node_modules/.package-lock.json crds/streamjobs.yaml $(shell find ui -path ui/node_modules -prune -o -name generated.ts -o -type f -print)
	@cd ui && node build.mjs
ui/node_modules/.package-lock.json: ui/package-lock.json
	@dev/bootstrap.sh node
	@echo "  packages of the page, 30 s to some minutes (the download)"
	@cd ui && npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

.PHONY: pictures
pictures: ui venv servers ## Take the docs' pictures of the page and of a terminal again, on the real cluster
	STREAMJOB_WRITE=1 $(PYTHON) -m pytest -q -m "" tests/ui/test_pictures.py tests/e2e/test_page.py tests/e2e/test_recording.py
	cp .build/pictures/ui-*.png .build/pictures/drain-terminal.svg docs/pictures/

.PHONY: release
release: venv ## Build what is published into dist/release: packages, images, chart, checksums, signature
	@$(PYTHON) -m dev.release

.PHONY: release-check
release-check: venv ## Build the release twice, each time from nothing, and compare the digests
	@$(PYTHON) -m dev.release check

.PHONY: docs
docs: venv .venv-docs/.stamp ## Build the documentation site into .build/site
	@rm -rf .build/docs
	@$(PYTHON) -m dev.docs .build/docs
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --clean

# MkDocs has an environment of its own, so that its packages never meet those of the product and its tests.
.venv-docs/.stamp: requirements/docs.lock
	@echo "  Python environment .venv-docs from $<"
	@python3 -m venv --clear .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.lock
	@touch $@

.PHONY: lint
lint: venv ## Check style, types, import contracts, and that generated files are up to date
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy
	.venv/bin/lint-imports
	$(PYTHON) -m streamjob.api | diff -u crds/streamjobs.yaml -
	$(PYTHON) -m dev.docs.chart charts/streamjob | diff -u charts/streamjob/README.md -
	$(PYTHON) -m dev.docs.remedies | diff -u operator/streamjob/cli/diagnosis/remedies.json -
	$(PYTHON) -m dev.docs.click_commands | diff -u docs/man/kubectl-streamjob.1 -
	$(PYTHON) -m dev.prose

.PHONY: format
format: venv ## Format the code and apply automatic fixes
	$(PYTHON) -m ruff check --fix-only
	$(PYTHON) -m ruff format

.PHONY: crds
crds: venv ## Generate crds/ from the models
	$(PYTHON) -m streamjob.api > crds/streamjobs.yaml.new && mv crds/streamjobs.yaml.new crds/streamjobs.yaml
	cp crds/streamjobs.yaml charts/streamjob/crds/

.PHONY: chart
chart: venv ## Generate the chart's README from its values
	$(PYTHON) -m dev.docs.chart charts/streamjob > charts/streamjob/README.md

.PHONY: lock
lock: venv ## Resolve the versions in requirements/*.lock again
	$(COMPILE) --all-extras -o requirements/dev.lock
	for v in $(OTHER_SPARKS); do \
		$(COMPILE) --all-extras --override requirements/$$v.in -o requirements/$$v.lock || exit; \
	done
	$(COMPILE) --extra controller -o requirements/controller.lock
	for name in build docs driver; do \
		$(PYTHON) -m uv pip compile requirements/$$name.in $(LOCK) -o requirements/$$name.lock || exit; \
	done
	for name in plugin flink; do \
		$(PYTHON) -m uv pip compile requirements/$$name.in $(LOCK) --no-deps -o requirements/$$name.lock || exit; \
	done

.PHONY: command
command: venv ## Generate what the command shows of the manual, and its manual page
	$(PYTHON) -m dev.docs.remedies > operator/streamjob/cli/diagnosis/remedies.json
	$(PYTHON) -m dev.docs.click_commands > docs/man/kubectl-streamjob.1

.PHONY: clean
clean: ## Remove environments and caches (the local cluster: make cluster-down)
	rm -rf ui/node_modules operator/streamjob/cli/ui/page
	rm -rf .venv $(OTHER_SPARKS:%=.venv-%) .venv-docs .cache .build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.cluster/*' -prune -exec rm -rf {} +

.PHONY: packages venv $(OTHER_SPARKS:%=venv-%) servers
packages:
	@dev/bootstrap.sh packages
venv:
	@dev/bootstrap.sh
venv-spark35:
	@dev/bootstrap.sh spark35
venv-spark40:
	@dev/bootstrap.sh spark40
venv-spark42:
	@dev/bootstrap.sh spark42
venv-spark43:
	@dev/bootstrap.sh spark43
servers:
	@dev/bootstrap.sh servers
