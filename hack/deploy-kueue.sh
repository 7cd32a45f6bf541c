#!/usr/bin/env bash
# Waits for Kueue in the current context, and makes the queues of samples/queues.yaml.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${VENV:-.venv}
make -s "$venv/.installed"
exec "$venv/bin/python" -m dev.appwrapper deploy-kueue
