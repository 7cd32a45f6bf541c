# asFlux is final here. Finds the user that runs Flux and the release of Flux.
# Reads: oldest
command -v flux >/dev/null ||
  fail "the image has no flux on its PATH: add it, or have it brought by leaving flux.container.disable out"
if [[ -n $asFlux ]]; then
  # sudo uses a PATH of its own that does not contain the view. env sets the paths of Flux again.
  asFlux+=" env PATH=$PATH PYTHONPATH=$PYTHONPATH LD_LIBRARY_PATH=$LD_LIBRARY_PATH"
fi
# shellcheck disable=SC2086 # a prefix of several words
uid=$($asFlux id -u) || fail "Flux cannot be run with asFlux=\"$asFlux\""
# shellcheck disable=SC2086
release=$(flux_release $asFlux)
if too_old "$release"; then
  fail "Flux $release is too old: use an image with version 0.$oldest or a newer one"
fi
release=${release:-unknown}
