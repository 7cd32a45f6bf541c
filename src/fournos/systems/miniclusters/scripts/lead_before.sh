# Starts the lead broker. A container that restarts in the same pod must not run the command again.
# Reads: mount retried
remember() {
  # The result is the MiniCluster's result. The termination message keeps it in the pod's status.
  printf '%s' "$1" >"$mount/flux-operator-result"
  printf '%s' "$1" >/dev/termination-log 2>/dev/null || true
}

if [[ $retried == false && -f $mount/flux-operator-result ]]; then
  result=$(<"$mount/flux-operator-result")
  remember "$result"
  exit "$result"
fi
