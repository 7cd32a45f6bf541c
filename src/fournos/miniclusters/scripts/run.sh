# Runs Flux so that a signal to this script reaches it: the broker then shuts down cleanly.
# Reads: timed
result=0
stopping=false
child=""

stop_child() {
  stopping=true
  [[ -n $child ]] || return 0
  local target=$child
  if [[ $timed == true && $HOSTNAME != "$lead" ]]; then
    # The child is /usr/bin/time, which does not hand a signal on: its own child gets it.
    target=$(cat "/proc/$child/task/$child/children" 2>/dev/null || true)
  fi
  # shellcheck disable=SC2086 # a list of one process, with a space
  kill -TERM ${target:-$child} 2>/dev/null || true
}
trap stop_child TERM INT

run() {
  result=0
  "$@" <&0 &
  child=$!
  wait "$child" || result=$?
  # A signal ends the wait, not the child.
  while kill -0 "$child" 2>/dev/null; do
    result=0
    wait "$child" || result=$?
  done
  child=""
}
