# What everything below uses.
# Reads: quiet
say() {
  [[ $quiet == true ]] || printf '%s\n' "$*"
}

fail() {
  printf 'fournos: %s\n' "$*" >&2
  exit 127
}

# The first process of a container ignores what it has no trap for.
trap 'exit 143' TERM INT

export PYTHONPATH="${PYTHONPATH:-}" LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}"
