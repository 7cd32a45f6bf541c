#!/bin/sh
# Runs BENCHMARK once, and fails while a regression of it is open.  Exit codes: fournos --help.
set -eu
# It stays in the caller's folder: KUBECONFIG may be relative to it.
job=$(fournos submit -f "$(dirname "$0")/job.yaml" -o name)
job=${job##*/}
fournos wait "$job" --recorded --timeout "${TIMEOUT:-2h}"
fournos trend "$job" --fail-on regression
