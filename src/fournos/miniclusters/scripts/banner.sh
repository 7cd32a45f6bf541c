# What a log begins with, unless it is to be quiet.
# Reads: lead
say "Flux $release on $HOSTNAME, as user $uid; the lead broker is $lead"
say "Options of the broker: ${options[*]}"
