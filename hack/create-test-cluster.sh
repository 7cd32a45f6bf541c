#!/usr/bin/env bash
# A local cluster with Kueue, made the current context of your kubeconfig.
# CLUSTER names it (appwrapper-test), DEVCLUSTER_PROVIDER=kind uses Docker or Podman.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${VENV:-.venv}
make -s "$venv/.installed"
exec "$venv/bin/python" -m dev.appwrapper create-cluster
