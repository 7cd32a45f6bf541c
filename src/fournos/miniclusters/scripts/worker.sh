# A worker: its broker starts again until it ends well, or is asked to stop.
# Reads: complete_workers socket disable_socket
undrain() {
  # This host was drained if one of its name was taken away before: it may work again.
  # shellcheck disable=SC2086 # a prefix of several words
  until [[ -S $socket ]] && timeout 10 $asFlux flux resource info >/dev/null 2>&1; do
    sleep 2
  done
  # shellcheck disable=SC2086
  $asFlux flux resource undrain "$HOSTNAME" >/dev/null 2>&1 || true
}

while true; do
  helper=""
  if [[ $disable_socket == false ]]; then
    FLUX_URI="local://$socket" undrain &
    helper=$!
  fi
  run_worker
  if [[ -n $helper ]]; then
    kill "$helper" 2>/dev/null || true
  fi
  if [[ $stopping == true ]]; then
    break
  fi
  if [[ $result -eq 0 || $complete_workers == true ]]; then
    say "The follower worker exited cleanly. Goodbye!"
    result=0
    break
  fi
  say "Return value for follower worker is $result: it starts again in 5 seconds"
  sleep 5 &
  wait $! || true
  if [[ $stopping == true ]]; then
    break
  fi
done
