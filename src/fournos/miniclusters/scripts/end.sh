# The commands after, whatever the result.  An error in them counts on the lead broker alone, and only after a
# command that ended well: what they look for is often only there.
# Reads: mount lead
strictness=$-
set +e
if [[ $strictness == *e* ]]; then
  (
    set -e
    after
  )
else
  (after)
fi
code=$?
if [[ $HOSTNAME == "$lead" ]]; then
  if [[ $result -eq 0 && $strictness == *e* ]]; then
    result=$code
  fi
  if [[ $stopping == false ]]; then
    remember "$result"
  fi
fi
touch "$mount/flux-operator-complete.txt" 2>/dev/null
if [[ $stopping == false && ($result -eq 137 || $result -eq 143) ]]; then
  # The Job takes these for a pod that was killed, and would make another.
  exit 1
fi
exit "$result"
