# Runs Flux so that a signal to this script is forwarded to it. The broker then shuts down cleanly.
# Reads: timed lead
result=0
stopping=false
sent=false
child=""

stop_child() {
  [[ $sent == false ]] || return 0
  sent=true
  local target=$child
  if [[ $timed == true && $HOSTNAME != "$lead" ]]; then
    # The child is /usr/bin/time, which does not forward signals. The signal is sent to its own child.
    target=$(cat "/proc/$child/task/$child/children" 2>/dev/null || true)
  fi
  # shellcheck disable=SC2086 # a list of one process, with a space
  kill -TERM ${target:-$child} 2>/dev/null || true
}

stop_flux() {
  stopping=true
  interrupted=true
  [[ -z $child ]] || stop_child
}
trap stop_flux TERM INT

run() {
  result=0
  [[ $stopping == false ]] || return 0
  "$@" <&0 &
  child=$!
  # A signal may arrive before the child's id is known.
  [[ $stopping == false ]] || stop_child
  # A signal ends the wait, not the child. Only a wait without interruption returns the child's exit code.
  interrupted=true
  while [[ $interrupted == true ]]; do
    interrupted=false
    result=0
    wait "$child" || result=$?
  done
  child=""
}
