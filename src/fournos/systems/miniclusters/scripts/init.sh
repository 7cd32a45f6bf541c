# Writes the configuration files to the shared volume, before any other container runs.
# Reads: mount config entrypoint quiet
mkdir -p "$config/etc/flux/config" "$config/etc/flux/system/cron.d"
cp "$entrypoint/broker.toml" "$config/etc/flux/config/broker.toml"
cp "$entrypoint/hostlist" "$config/etc/flux/system/hostlist"
