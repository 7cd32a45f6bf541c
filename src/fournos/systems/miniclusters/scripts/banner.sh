# Prints the first lines of the log, unless `quiet` is set.
# Reads: lead
say "Flux $release on $HOSTNAME, as user $uid; the lead broker is $lead"
say "Options of the broker: ${options[*]}"
