# asFlux is what it stays: who runs Flux is known by it, and which Flux.
# Reads: oldest
command -v flux >/dev/null ||
  fail "the image has no flux on its PATH: add it, or have it brought by leaving flux.container.disable out"
if [[ -n $asFlux ]]; then
  # sudo has a PATH of its own, on which a view is not: env finds Flux, and what belongs to it.
  asFlux+=" env PATH=$PATH PYTHONPATH=$PYTHONPATH LD_LIBRARY_PATH=$LD_LIBRARY_PATH"
fi
# shellcheck disable=SC2086 # a prefix of several words
uid=$($asFlux id -u) || fail "Flux cannot be run with asFlux=\"$asFlux\""
release=unknown
# shellcheck disable=SC2086
if [[ $($asFlux flux version 2>/dev/null || true) =~ commands:[[:space:]]*(([0-9]+)\.([0-9]+)[^[:space:]]*) ]]; then
  release=${BASH_REMATCH[1]}
  ((BASH_REMATCH[2] > 0 || BASH_REMATCH[3] >= oldest)) ||
    fail "Flux $release is too old: use an image with version 0.$oldest or a newer one"
fi
