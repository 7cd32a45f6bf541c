# Runs the command in a process group of its own, so that a signal to this script reaches all of it.
set -m
main <&0 &
child=$!
set +m
trap 'kill -TERM -- "-$child" 2>/dev/null || true' TERM INT
result=0
wait "$child" || result=$?
if [[ $result -gt 128 ]]; then
  while kill -0 -- "-$child" 2>/dev/null; do
    sleep 0.1
  done
fi
