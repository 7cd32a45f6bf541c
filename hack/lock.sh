#!/usr/bin/env bash
# Writes requirements.lock (everything a developer needs) and requirements-runtime.lock (what the image
# holds), both with hashes.  Pins that still satisfy pyproject.toml are kept; `hack/lock.sh --upgrade` takes the
# newest of everything.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tool=$(mktemp -d)
trap 'rm -rf "$tool"' EXIT
python3 -m venv "$tool"
"$tool/bin/pip" install --quiet --disable-pip-version-check uv
# Each pin has its extras: of `coverage[toml]`, which pytest-cov requires, pip takes the newest release, not the pin
# of `coverage`, and refuses it for its missing hash.
compile=("$tool/bin/uv" pip compile --quiet --python-version 3.11 --generate-hashes --no-strip-extras --no-header)
"${compile[@]}" "$@" --extra dev -o requirements.lock pyproject.toml
# The image holds the very versions that the tests ran with.
"${compile[@]}" --constraint requirements.lock --extra history --extra postgres --extra web \
  -o requirements-runtime.lock pyproject.toml
