#!/usr/bin/env bash
# The end-to-end tests of AppWrappers, against the operator in the current context (make deploy).  Arguments go to
# pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${VENV:-.venv}
make -s "$venv/.installed"
export APPWRAPPER_TEST_KUBECONFIG="${KUBECONFIG:-$HOME/.kube/config}"
exec "$venv/bin/python" -m pytest tests/e2e/appwrappers "$@"
