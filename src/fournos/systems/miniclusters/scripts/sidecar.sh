# Waits for the socket of Flux.
# Reads: socket wait_socket
export fluxsocket="local://$socket"
if [[ $wait_socket == true ]]; then
  until [[ -S $socket ]]; do
    sleep 1
  done
fi
