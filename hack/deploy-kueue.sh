#!/usr/bin/env bash
# Installs Kueue in the current context where it is missing, waits for it, and makes the queues of samples/queues.yaml.
# KUEUE_MANIFESTS: its release manifest, a URL or a file (default: the release that this version is tested with).
set -euo pipefail
if [ -f "${KUEUE_MANIFESTS:-}" ]; then
  KUEUE_MANIFESTS=$(realpath "$KUEUE_MANIFESTS")
  export KUEUE_MANIFESTS
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${VENV:-.venv}
make -s "$venv/.installed"
exec "$venv/bin/python" -m dev.appwrapper deploy-kueue
