# Drains a worker before its pod is deleted: no new tasks start here, and running tasks may end.
# Reads: mount socket grace
busy() {
  # True if a task of any job runs on this rank. Sets of ranks look like 0-3,5.
  local ranks part
  # shellcheck disable=SC2086 # a prefix of several words
  ranks=$(timeout 10 $asFlux flux jobs -A -n --filter=running -o '{ranks}' 2>/dev/null) || return 1
  for part in ${ranks//,/ }; do
    part=${part//[\[\]]/}
    ((part_first = ${part%-*}, part_last = ${part#*-}))
    ((part_first <= rank && rank <= part_last)) && return 0
  done
  return 1
}

touch "$mount/flux-operator-leaving" 2>/dev/null || true
if [[ -S $socket && $(hostname) != "$lead" ]]; then
  . "$mount/flux-view.sh"
  export FLUX_URI="local://$socket"
  # shellcheck disable=SC2086 # a prefix of several words
  if rank=$(timeout 10 $asFlux flux getattr rank) &&
    timeout 10 $asFlux flux resource drain "$rank" "taken away"; then
    while ((SECONDS < grace)) && busy; do
      sleep 1
    done
  fi
fi
