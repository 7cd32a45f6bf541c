# Everything a developer does, by name.  `make` alone explains the targets.
#
# Every target makes what it needs first: `make demo` and `make test` work on a machine
# that has only Python, make and the package registries.

VENV   ?= .venv
PYTHON := $(VENV)/bin/python
STAMP  := $(VENV)/.installed

# Else each of the hundreds of processes that tests start compiles the sources anew, where this is set.
unexport PYTHONDONTWRITEBYTECODE

# Debian's `su` without `-` leaves these two out: iptables, modprobe and what apt-get starts are there.
export PATH := $(PATH):/usr/sbin:/sbin

# Minutes of `make fuzz`.
FUZZ_MINUTES ?= 60

# Minutes of the load in `make soak`.
SOAK_MINUTES ?= 30
SOAK_PARTS = jobs,schedules,clusters,appwrappers,miniclusters
SOAK_RESULTS = $(patsubst %,bench/results/%.json,soak failover)

# yes: clusters that tests bring up stay for the next run.  no: none of this checkout's stays.
KEEP_CLUSTERS ?= yes
AROUND = $(PYTHON) -m devcluster around --keep=$(KEEP_CLUSTERS)
WITH_CLUSTERS = $(AROUND) -- $(PYTHON)

# Unit tests share nothing, so they take all cores. Tests on clusters wait most of the time: those of a lane
# run one after the other, the lanes side by side, with no cluster in common.
UNIT_TESTS = $(PYTHON) -m pytest tests/unit --numprocesses=auto $(PYTEST_ARGS)
# What a change of the product needs, and what only a change of the set-up needs: tests with that mark.
PRODUCT_ARGS = -m "not setup" $(PYTEST_ARGS)
LANES = integration=tests/integration jobs=tests/e2e/jobs,tests/e2e/web \
  systems=tests/e2e/appwrappers,tests/e2e/clusters,tests/e2e/frameworks,tests/e2e/miniclusters,tests/e2e/multikueue,tests/e2e/chart
SETUP_LANES = bare=tests/e2e/bare devcluster=tests/e2e/devcluster \
  kueue=tests/integration/multikueue

# The notice is of the theme's successor; nothing is to be done before 2027.
MKDOCS = NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs
DOCS_ADDRESS ?= 127.0.0.1:8000

DEV_CLUSTER   ?= fournos-dev
DEV_NAMESPACE := $(or $(FOURNOS_NAMESPACE),fournos-local-dev)
SECRETS_NAMESPACE := $(or $(FOURNOS_SECRETS_NAMESPACE),psap-secrets)

.DEFAULT_GOAL := help
# `make dev-setup dev-run` must do one after the other, even under -j.
.NOTPARALLEL:
.PHONY: help demo test programs unit store integration e2e test-setup test-clusters test-versions vm teardown lint format verify docs manifests lock release chart bench bench-check soak fuzz oracle screenshots \
        dev-setup dev-run dev-teardown docker-build docker-push kind-push deploy undeploy install run uninstall \
        sync-vault-secrets sync-vault-secrets-dry-run clean

help: ## Show this text
	@echo "Fournos: queue benchmark jobs, find them a cluster, run them there and report back."
	@echo
	@echo "First time?   make demo     a real local cluster, operator and history in it, jobs to their end, and its page"
	@echo "Changed code? make test     lint and all tests of the product; make test-setup those of the set-up"
	@echo
	@awk -F ':.*## ' '/^##@/ {printf "%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / && !seen[$$1]++ {printf "  %-28s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "Variables: FOURNOS_NAMESPACE (dev-setup, dev-run: where; test: test the operator that runs there),"
	@echo "           DEV_CLUSTER (dev-setup, dev-run, dev-teardown: which cluster; default fournos-dev),"
	@echo "           DEV_ARGS (demo, dev-setup; --help lists them: --provider, --kubeconfig of an existing cluster, ...),"
	@echo "           KEEP_CLUSTERS=no (test, test-setup, integration, e2e: leave no cluster of this checkout, whatever their end),"
	@echo "           VENV (default .venv), PYTEST_ARGS (added to pytest), BENCH_ARGS (added to the benchmark),"
	@echo "           FUZZ_MINUTES (fuzz; default 60), SOAK_MINUTES (soak; default 30),"
	@echo "           RELEASE_ARGS (release: --image, --out)."

##@ Use it
demo: $(STAMP) ## Local cluster + operator + history + page + sample jobs (15 min cold, 100 s warm)
	@$(PYTHON) -m dev.demo $(DEV_ARGS)

dev-setup: $(STAMP) ## Local cluster with Tekton, Kueue, the CRDs and mock resources
	@FOURNOS_NAMESPACE=$(DEV_NAMESPACE) FOURNOS_SECRETS_NAMESPACE=$(SECRETS_NAMESPACE) \
	  $(PYTHON) -m dev.setup --cluster $(DEV_CLUSTER) $(DEV_ARGS)

dev-run: $(STAMP) ## Run the operator here, against the local cluster (Ctrl-C ends it)
	@FOURNOS_NAMESPACE=$(DEV_NAMESPACE) FOURNOS_SECRETS_NAMESPACE=$(SECRETS_NAMESPACE) \
	  $(PYTHON) -m dev.run --cluster $(DEV_CLUSTER)

dev-teardown: $(STAMP) ## Delete the local cluster, leaving nothing behind
	@$(PYTHON) -m devcluster down $(DEV_CLUSTER)

##@ AppWrapper (hack/create-test-cluster.sh and hack/deploy-kueue.sh first; all but kind-push act on kubectl's current context)
docker-build: $(STAMP) ## Make the operator's image of this checkout (CONTAINER_TOOL: docker, podman or buildah)
	@$(PYTHON) -m dev.appwrapper build

docker-push: export GIT_REF ?= $(shell git symbolic-ref -q HEAD)
docker-push: export GIT_COMMIT ?= $(shell git rev-parse HEAD)
docker-push: $(STAMP) ## Push it to quay.io/rh_perfscale, as the branch or as the version of GIT_REF (refs/tags/v1.2.3)
	@$(PYTHON) -m dev.publish

kind-push: $(STAMP) ## Load that image into the cluster of hack/create-test-cluster.sh (CLUSTER: another one)
	@$(PYTHON) -m dev.appwrapper push

deploy: $(STAMP) ## AppWrapper's CRD and operator into the cluster, with that image (IMG: another one)
	@$(PYTHON) -m dev.appwrapper deploy

undeploy: $(STAMP) ## Delete AppWrapper's CRD and operator, and all AppWrappers
	@$(PYTHON) -m dev.appwrapper undeploy

install: $(STAMP) ## Only AppWrapper's CRD
	@$(PYTHON) -m dev.appwrapper install

run: $(STAMP) ## Run the AppWrapper operator here, without webhooks (Ctrl-C ends it)
	@$(PYTHON) -m dev.appwrapper run

uninstall: $(STAMP) ## Delete AppWrapper's CRD, and all AppWrappers
	@$(PYTHON) -m dev.appwrapper uninstall

##@ Check it
ifdef FOURNOS_NAMESPACE
test: $(STAMP) ## Lint and all tests of the product; with FOURNOS_NAMESPACE set, only the operator that runs there
	@echo "Testing the operator that runs in namespace $(FOURNOS_NAMESPACE)."
	@$(PYTHON) -m pytest tests/e2e/jobs $(PYTEST_ARGS)
else
test: lint verify programs ## Lint and all tests of the product; with FOURNOS_NAMESPACE set, only the operator that runs there
	@echo "==> tests: unit, then integration and end-to-end side by side; all run, whatever fails"
	@$(UNIT_TESTS) tests/store; unit=$$?; \
	  exec $(AROUND) --earlier=$$unit -- $(PYTHON) -m dev.lanes $(LANES) -- $(PRODUCT_ARGS)
endif

# The first time this compiles a Kubernetes, and what checks alerts and the chart: no single test should have to wait for that.
programs: $(STAMP) ## The programs of the local cluster, from source (10 min cold): what tests start
	@$(PYTHON) -m devcluster build
	@$(PYTHON) -m dev.go_tools --build

unit: $(STAMP) ## Only the unit tests (no cluster)
	@$(UNIT_TESTS)

store: $(STAMP) ## Only the tests of the history's store (PostgreSQL, no cluster)
	@$(PYTHON) -m pytest tests/store --numprocesses=auto $(PYTEST_ARGS)

integration: programs ## Only the tests against a real API server (control plane, no pods)
	@$(WITH_CLUSTERS) -m pytest tests/integration $(PRODUCT_ARGS)

e2e: programs ## Only the end-to-end tests (a full local cluster)
	@$(WITH_CLUSTERS) -m pytest tests/e2e $(PRODUCT_ARGS)

test-setup: test-clusters test-versions ## Both of these: what a change of the set-up needs

test-clusters: programs ## Tests of local clusters, of a newcomer's machine, and of what Kueue's own adapter does
	@exec $(AROUND) -- $(PYTHON) -m dev.lanes $(SETUP_LANES) -- -m setup $(PYTEST_ARGS)

test-versions: $(STAMP) ## A chosen part of the tests, on the other set of versions (builds it first: 8 min)
	@exec $(PYTHON) -m dev.second_set $(PYTEST_ARGS)

vm: programs ## A node and the demonstration on Debians with a kernel of their own, emulated (40 min)
	@$(PYTHON) -m pytest tests/vm $(PYTEST_ARGS)

teardown: $(STAMP) ## Take down all clusters that this checkout made: the tests', the demonstration's, a benchmark's
	@$(PYTHON) -m devcluster teardown

lint: $(STAMP) ## Style, types and the import contract
	@echo "==> lint: ruff, mypy, import-linter (about 30 s the first time)"
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy
	@$(VENV)/bin/lint-imports

format: $(STAMP) ## Format and fix what can be fixed
	@$(PYTHON) -m ruff check --fix .
	@$(PYTHON) -m ruff format .

verify: $(STAMP) ## Generated files are what their sources say, links in docs/ lead somewhere
	@echo "==> verify: generated files, and the links of docs/"
	@$(PYTHON) -m fournos.app.generate --check
	@$(MKDOCS) build

docs: $(STAMP) ## The documentation as a site on http://127.0.0.1:8000, renewed at every change (DOCS_ADDRESS: another one)
	@$(MKDOCS) serve --dev-addr $(DOCS_ADDRESS)

fuzz: $(STAMP) ## Random text of others for every public entry, each time another (FUZZ_MINUTES: default 60, all entries together)
	@echo "==> fuzz: $(FUZZ_MINUTES) min; a failure prints the shortest text that shows it"
	@FOURNOS_FUZZ_MINUTES=$(FUZZ_MINUTES) $(PYTHON) -m pytest tests/unit/test_foreign_text.py $(PYTEST_ARGS)

oracle: ## Ask Apache Otava again for the change points in tests/data, in a virtual environment of its own (1 min)
	@python3 -m venv .venv-oracle
	@.venv-oracle/bin/pip install --quiet --disable-pip-version-check -r tests/oracle/requirements.txt
	@.venv-oracle/bin/python tests/oracle/change_points.py tests/data/otava.json

bench-check: $(STAMP) ## Measure the ceiling and failovers, and compare their ratios with bench/ranges.yaml (10 min)
	@$(PYTHON) -m bench ceiling --json bench/results/ceiling.json
	@$(PYTHON) -m bench failover --json bench/results/failover.json
	@$(PYTHON) -m bench check bench/results/ceiling.json bench/results/failover.json

soak: $(STAMP) ## Short jobs without a pause, failovers, outages, a start (SOAK_MINUTES: default 30)
	@$(PYTHON) -m bench soak --minutes $(SOAK_MINUTES) --kill-every 10 --outages 60 --enable $(SOAK_PARTS) --json bench/results/soak.json
	@$(PYTHON) -m bench failover --kills 20 --graceful 20 --json bench/results/failover.json
	@$(PYTHON) -m bench start --jobs 2000 --json bench/results/start.json
	@$(PYTHON) -m bench check $(SOAK_RESULTS)

bench: $(STAMP) ## Measure the job lifecycle; prints a table, writes bench/results/*.json
	@$(PYTHON) -m bench $(BENCH_ARGS)

##@ Generate and install
manifests: $(STAMP) ## Write the generated files again (CRDs, manifests, reference pages)
	@$(PYTHON) -m fournos.app.generate

chart: programs ## Write charts/fournos again from the manifests
	@$(PYTHON) -m dev.chart

screenshots: $(STAMP) ## Take the pictures of docs/web.md again
	@$(PYTHON) -m tests.e2e.web.pictures

release: programs ## Wheel, sdist, chart, install.yaml and checksums in dist/ (RELEASE_ARGS)
	@$(PYTHON) -m dev.release $(RELEASE_ARGS)

lock: ## Write the lock files again from pyproject.toml
	@hack/lock.sh

$(STAMP): requirements.lock hack/bootstrap.sh
	@hack/bootstrap.sh $(VENV)

clean: ## Delete the virtual environment and build leftovers
	rm -rf $(VENV) .venv-oracle build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

##@ Vault (VAULT_ADDR, VAULT_TOKEN and VAULT_SECRET_PATH must be set)
sync-vault-secrets: $(STAMP) ## Vault entries to Secrets in FOURNOS_SECRETS_NAMESPACE (psap-secrets)
	@$(PYTHON) hacks/sync_vault_secrets.py -n $(SECRETS_NAMESPACE)

sync-vault-secrets-dry-run: $(STAMP) ## Show what a sync would do, changing nothing
	@$(PYTHON) hacks/sync_vault_secrets.py -n $(SECRETS_NAMESPACE) --dry-run
