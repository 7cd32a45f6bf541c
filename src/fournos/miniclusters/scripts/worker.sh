# A worker: its broker starts again until it ends well, or is asked to stop.
# Reads: mount complete_workers stays socket disable_socket patience
undrain() {
  # This host was drained if one of its name was taken away before: it may work again.
  local pause=$patience
  until [[ -S $socket ]]; do
    sleep "$pause"
  done
  # All workers ask at once, and may share a node: ever seldomer until the lead broker answers.
  # shellcheck disable=SC2086 # a prefix of several words
  until sleep "$pause" && timeout 10 $asFlux flux resource info >/dev/null 2>&1; do
    ((pause = pause < 30 ? pause * 2 : pause))
  done
  # shellcheck disable=SC2086
  $asFlux flux resource undrain "$HOSTNAME" >/dev/null 2>&1 || true
}

while [[ $stopping == false ]]; do
  helper=""
  if [[ $disable_socket == false ]]; then
    FLUX_URI="local://$socket" undrain &
    helper=$!
  fi
  run_worker
  if [[ -n $helper ]]; then
    kill "$helper" 2>/dev/null || true
  fi
  if [[ $stopping == true || -e $mount/flux-operator-leaving ]]; then
    # The second: the pod is taken away, and its lead went first.
    stopping=true
    break
  fi
  # Where the lead broker may begin again in another pod, its workers outlive it: the Job stops them at its end.
  if [[ $stays == false && ($result -eq 0 || $complete_workers == true) ]]; then
    say "The follower worker exited cleanly. Goodbye!"
    result=0
    # When: a lead that begins later needs this worker again, whatever is still to be done here.
    printf '%(%s)T' -1 >/dev/termination-log 2>/dev/null || true
    break
  fi
  say "Return value for follower worker is $result: it starts again in 5 seconds"
  sleep 5 &
  wait $! || true
done
