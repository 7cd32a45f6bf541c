#!/usr/bin/env bash
# usage: hack/bootstrap.sh VENV
# Makes the virtual environment VENV with exactly the packages of requirements.lock (by hash) and
# this checkout installed in place.  Called by the Makefile when the lock is newer than the stamp.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv=${1:?usage: hack/bootstrap.sh VENV}

fail() { printf 'error: %s\n' "$@" >&2; exit 1; }

find_python() {
  local candidate
  for candidate in ${FOURNOS_PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

python=$(find_python) || fail \
  "Python 3.11 or newer is needed and was not found." \
  "Install it (Debian: apt install python3 python3-venv; Fedora: dnf install python3), or name one: FOURNOS_PYTHON=/path/to/python3 make"

# Debian ships venv without ensurepip unless python3-venv is there.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "==> python$minor-venv is missing: installing it (about 10 s)"
    log=$(mktemp)
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "python$minor-venv"; } >"$log" 2>&1 \
      || { tail -n 20 "$log" >&2; fail "apt-get could not install python$minor-venv (its last lines are above)."; }
    rm -f "$log"
  else
    fail "$python has no ensurepip, so it cannot make a virtual environment." \
      "Install it, then run make again: sudo apt install python$minor-venv"
  fi
fi

# An environment of another Python, or one left half-made, is not worth repairing.
if [ -e "$venv" ] && ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
  [ -f "$venv/pyvenv.cfg" ] || fail "$venv exists and is not a virtual environment: move it away, or set VENV=other."
  rm -rf "$venv"
fi

echo "==> Python packages into $venv (about 40 s the first time)"
[ -e "$venv" ] || "$python" -m venv "$venv"
export PIP_DISABLE_PIP_VERSION_CHECK=1
"$venv/bin/python" -m pip install --quiet --require-hashes -r requirements.lock
# Everything the build needs is in the lock, hence no isolation and no further download.
"$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable .
touch "$venv/.installed"
