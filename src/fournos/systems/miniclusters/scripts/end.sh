# Runs commands.post after every result. An error in them counts only on the lead broker, and only after a
# command that ended with 0: often only the lead broker has what they look for.
# Reads: mount lead marks stopped reserved
cut=$stopping
killed=false
if [[ $HOSTNAME == "$lead" && $result -eq 137 && ! -e $marks/3 ]]; then
  # The broker itself was killed, for example for its memory. Its command has no result, and runs again in another pod.
  killed=true
fi
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
if [[ $HOSTNAME == "$lead" && $cut == false && $killed == false ]]; then
  if [[ $result -eq 0 && $strictness == *e* ]]; then
    result=$code
  fi
  remember "$result"
fi
touch "$mount/flux-operator-complete.txt" 2>/dev/null
if [[ $cut == true ]]; then
  # Flux was stopped from outside, so its exit code is not a result.
  told=true
  exit "$stopped"
fi
if [[ $killed == true ]]; then
  printf 'fournos: the lead broker was killed\n' >&2
  exit 137
fi
if [[ $result -eq 137 || $result -eq 143 || $result -eq $reserved ]]; then
  # The Job treats these codes as a pod that was killed or stopped, and would create another pod.
  exit 1
fi
exit "$result"
