# The lead broker.  A container that starts again in the same pod does not run the command again.
# Reads: mount retried
remember() {
  # The result is that of the MiniCluster; the pod's status keeps it.
  printf '%s' "$1" >"$mount/flux-operator-result"
  printf '%s' "$1" >/dev/termination-log 2>/dev/null || true
}

if [[ $retried == false && -f $mount/flux-operator-result ]]; then
  result=$(<"$mount/flux-operator-result")
  remember "$result"
  exit "$result"
fi
