# Creates what the broker needs: directories, certificate, resources, and the files that users source.
# Reads: mount config socket entrypoint curve fixed_cores logs uid asFlux
# Root gives away what it creates. Another user cannot, and lets the user that runs Flux create it.
maker=$asFlux
if [[ $(id -u) == 0 ]]; then
  maker=""
fi
mkdir -p "$config/etc/flux/system/cron.d" "$config/etc/flux/config"
# shellcheck disable=SC2086 # a prefix of several words
if ! $maker mkdir -p "$config/curve" "$config/run/flux" "$config/var/lib/flux" "$logs" ||
  ! $maker install -m 0600 "$curve" "$config/curve/curve.cert"; then
  fail "Flux runs as user $uid, who cannot write to $config or $logs: run the pod as root," \
    "or leave fluxUser and runFluxAsRoot out"
fi
resources=(--local)
if [[ $fixed_cores == true ]]; then
  # A range of one number is no set of numbers to Flux.
  resources=("--cores=0$( ((cores == 1)) || printf -- '-%d' $((cores - 1)))")
fi
# shellcheck disable=SC2086 # a prefix of several words
$asFlux flux R encode "--hosts=$(<"$entrypoint/hostlist")" "${resources[@]}" >"$config/etc/flux/system/R"
if [[ $uid != 0 && $(id -u) == 0 ]]; then
  chown -R "$uid" "$config/curve" "$config/run" "$config/var" "$logs"
fi
{
  printf 'export PATH=%q\n' "$PATH"
  printf 'export PYTHONPATH=%q\n' "$PYTHONPATH"
  printf 'export LD_LIBRARY_PATH=%q\n' "$LD_LIBRARY_PATH"
  printf 'export fluxsocket=%q\n' "local://$socket"
  printf 'asFlux=%q\n' "$asFlux"
  cat "$entrypoint/environment.sh"
} >"$mount/flux-view.sh"
cat >"$mount/flux-connect.sh" <<'CONNECT'
#!/bin/bash
. "$(dirname "$0")/flux-view.sh"
$asFlux flux proxy "$fluxsocket" bash
CONNECT
chmod 0755 "$mount/flux-connect.sh"
. "$entrypoint/environment.sh"
