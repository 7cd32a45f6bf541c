# How flux start takes the broker's options.
# Reads: config entrypoint
options=("--config-path=$config/etc/flux/config" "${options[@]}")
quorum=$(<"$entrypoint/quorum.txt")
if [[ -n $quorum ]]; then
  options+=("-Sbroker.quorum=$quorum")
fi
handed=()
for option in "${options[@]}"; do
  # Before 0.69 flux start knows no other way than -o, which splits what it is given at commas.
  if [[ $option == *,* ]]; then
    handed+=("$option")
  else
    handed+=("-o$option")
  fi
done
