# The Job creates another pod, and counts no failure, if this script exits with the reserved code for a requested
# stop. User code that exits with this code means something else, so it exits with 1 instead.
# User code that ends this script is named, because nothing else shows why the pod has failed.
# Reads: reserved
told=false
part=""

ended() {
  local code=$?
  [[ $told == false ]] || return 0
  if [[ $code -ne 0 && -n $part ]]; then
    printf 'fournos: %s has ended with exit code %s\n' "$part" "$code" >&2
    printf '%s has ended with exit code %s' "$part" "$code" >/dev/termination-log 2>/dev/null || true
  fi
  [[ $code -ne $reserved ]] || exit 1
}
trap ended EXIT
