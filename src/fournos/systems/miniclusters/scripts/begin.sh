# Defines the functions that all parts below use.
# Reads: quiet stopped
say() {
  [[ $quiet == true ]] || printf '%s\n' "$*"
}

fail() {
  printf 'fournos: %s\n' "$*" >&2
  printf '%s' "$*" >/dev/termination-log 2>/dev/null || true
  exit 127
}

# The first process of a container ignores every signal without a trap.
trap 'told=true; exit "$stopped"' TERM INT

export PYTHONPATH="${PYTHONPATH:-}" LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}"
