# Checks the command that logging.timed needs.
[[ -x /usr/bin/time ]] ||
  fail "logging.timed needs /usr/bin/time, which the image does not have: add it, or leave logging.timed out"
