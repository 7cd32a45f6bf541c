# Converts the broker's options to options of flux start.
# Reads: config entrypoint
options=("--config-path=$config/etc/flux/config" "${options[@]}")
quorum=$(<"$entrypoint/quorum.txt")
if [[ -n $quorum ]]; then
  options+=("-Sbroker.quorum=$quorum")
fi
handed=()
for option in "${options[@]}"; do
  # Before 0.69 flux start accepts broker options only with -o, which splits its value at commas.
  if [[ $option == *,* ]]; then
    handed+=("$option")
  else
    handed+=("-o$option")
  fi
done
