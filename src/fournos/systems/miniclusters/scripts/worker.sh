# Runs a worker. Its broker starts again until it exits with 0 or a stop is requested.
# Reads: mount complete_workers stays socket disable_socket patience
undrain() {
  # An earlier pod with this host name may have drained the host before its deletion. Undrains it.
  # flux uptime shows whether any host is drained, and starts no Python, as the commands about resources do.
  local pause=$patience shown=""
  until [[ -S $socket ]]; do
    sleep "$pause"
  done
  # All workers poll at the same time, and may share a node. The interval doubles until the broker has joined.
  # shellcheck disable=SC2086 # a prefix of several words
  until shown=$(timeout 10 $asFlux flux uptime 2>/dev/null) && [[ $shown == *" run "* ]]; do
    sleep "$pause"
    ((pause = pause < 30 ? pause * 2 : pause))
  done
  if [[ $shown == *" drained"* ]]; then
    # shellcheck disable=SC2086
    $asFlux flux resource undrain "$HOSTNAME" >/dev/null 2>&1 || true
  fi
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
    # In the second case the pod is being deleted, and its lead broker has ended first.
    stopping=true
    break
  fi
  # If the lead broker may start again in another pod, its workers keep running. The Job stops them at its end.
  if [[ $stays == false && ($result -eq 0 || $complete_workers == true) ]]; then
    say "The follower worker exited cleanly. Goodbye!"
    result=0
    # Writes the time of this end. A lead broker that starts later needs this worker again.
    printf '%(%s)T' -1 >/dev/termination-log 2>/dev/null || true
    break
  fi
  say "Return value for follower worker is $result: it starts again in 5 seconds"
  sleep 5 &
  wait $! || true
done
