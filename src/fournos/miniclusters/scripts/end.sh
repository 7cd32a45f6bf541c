# The commands after, whatever the result.  An error in them counts on the lead broker alone, and only after a
# command that ended well: what they look for is often only there.
# Reads: mount lead stopped reserved
cut=$stopping
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
if [[ $HOSTNAME == "$lead" && $cut == false ]]; then
  if [[ $result -eq 0 && $strictness == *e* ]]; then
    result=$code
  fi
  remember "$result"
fi
touch "$mount/flux-operator-complete.txt" 2>/dev/null
if [[ $cut == true ]]; then
  # How Flux ended is no result: it was not its own end.
  told=true
  exit "$stopped"
fi
if [[ $result -eq 137 || $result -eq 143 || $result -eq $reserved ]]; then
  # The Job takes these for a pod that was killed or stopped, and would make another.
  exit 1
fi
exit "$result"
