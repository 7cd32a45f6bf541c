#!/bin/sh
# Runs BENCHMARK once, and fails while a regression of it is open.  Exit codes: fournos --help.
set -eu
cd "$(dirname "$0")"
job=$(fournos submit -f job.yaml -o name)
job=${job##*/}
fournos wait "$job" --recorded --timeout "${TIMEOUT:-2h}"
fournos trend "$job" --fail-on regression
