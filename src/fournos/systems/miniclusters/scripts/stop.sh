# Drains a worker before its pod is deleted: no new tasks start here, and running tasks may end.
# Reads: mount socket grace
busy() {
  # True if a task of any job runs on this rank. Sets of ranks look like 0-3,5.
  local job jobs part
  # shellcheck disable=SC2086 # a prefix of several words
  jobs=$(timeout 10 $asFlux flux job list --states=running --user=all 2>/dev/null) || return 1
  while read -r job; do
    [[ $job =~ \"ranks\":\ *\"([^\"]*)\" ]] || continue
    for part in ${BASH_REMATCH[1]//,/ }; do
      part=${part//[\[\]]/}
      ((part_first = ${part%-*}, part_last = ${part#*-}))
      ((part_first <= rank && rank <= part_last)) && return 0
    done
  done <<<"$jobs"
  return 1
}

touch "$mount/flux-operator-leaving" 2>/dev/null || true
if [[ -S $socket && $(hostname) != "$lead" ]]; then
  . "$mount/flux-view.sh"
  export FLUX_URI="local://$socket"
  # A broker that has not joined has no tasks, and one whose lead broker does not answer cannot be drained.
  # shellcheck disable=SC2086 # a prefix of several words
  if [[ $(timeout 5 $asFlux flux uptime 2>/dev/null) == *" run "* ]] &&
    rank=$(timeout 10 $asFlux flux getattr rank) &&
    timeout 10 $asFlux flux resource drain "$rank" "taken away"; then
    while ((SECONDS < grace)) && busy; do
      sleep 1
    done
  fi
fi
