# The commands after, whatever the result.  An error in them counts on the lead broker alone: what they look for is
# often only there.
# Reads: mount lead
if [[ $HOSTNAME != "$lead" ]]; then
  (after) || true
elif [[ $result -eq 0 ]]; then
  after
else
  after || true
fi
touch "$mount/flux-operator-complete.txt" 2>/dev/null || true
if [[ $stopping == false && ($result -eq 137 || $result -eq 143) ]]; then
  # The Job takes these for a pod that was killed, and would make another.
  exit 1
fi
exit "$result"
