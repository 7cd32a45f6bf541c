# What everything below uses.
# Reads: quiet
say() {
  [[ $quiet == true ]] || printf '%s\n' "$*"
}

fail() {
  printf 'fournos: %s\n' "$*" >&2
  exit 127
}

export PYTHONPATH="${PYTHONPATH:-}" LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}"
