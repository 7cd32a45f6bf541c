# The startup probe: has the broker joined the instance? A lead broker has when its quorum is there, a worker when it
# is online. flux uptime asks the broker itself, and starts no Python.
# Reads: mount socket lead
state=none
if [[ -S $socket && -e $mount/flux-view.sh ]]; then
  . "$mount/flux-view.sh"
  export FLUX_URI="local://$socket"
  # shellcheck disable=SC2086 # a prefix of several words
  read -r _ state _ <<<"$(timeout 5 $asFlux flux uptime 2>/dev/null)"
fi
if [[ $state == run || ($state == quorum && $HOSTNAME != "$lead") ]]; then
  exit 0
fi
echo "the broker has not joined yet, its state is ${state:-not known}"
exit 1
