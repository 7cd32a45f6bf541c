# Files of this container's volume, before anything else runs.
# Reads: mount config entrypoint quiet
mkdir -p "$config/etc/flux/config" "$config/etc/flux/system/cron.d"
cp "$entrypoint/broker.toml" "$config/etc/flux/config/broker.toml"
cp "$entrypoint/hostlist" "$config/etc/flux/system/hostlist"
