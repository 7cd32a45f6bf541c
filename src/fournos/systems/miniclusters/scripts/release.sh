# Finds out which release of Flux there is.
# Reads: oldest
# shellcheck disable=SC2120 # the prefix may be empty
flux_release() {
  # Prints the release, such as 0.61.0, of the Flux that these words of a prefix start; nothing if it is not shown.
  local shown
  shown=$("$@" flux version 2>/dev/null || true)
  [[ ! $shown =~ commands:[[:space:]]*([0-9]+\.[0-9]+[^[:space:]]*) ]] || printf '%s' "${BASH_REMATCH[1]}"
}

too_old() {
  [[ $1 =~ ^([0-9]+)\.([0-9]+) ]] && ((BASH_REMATCH[1] == 0 && BASH_REMATCH[2] < oldest))
}
