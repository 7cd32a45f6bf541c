# Adds Flux from the view to the PATH and sets its Python path. Its software is at the path that it was built for.
# An image's own Flux comes first, unless it is too old.
# Reads: view python_path rc_extra
shadowed=false
# shellcheck disable=SC2119 # without a prefix
if command -v flux >/dev/null && too_old "$(flux_release)"; then
  shadowed=true
  export PATH="$view/bin:$PATH"
else
  export PATH="$PATH:$view/bin"
fi
if [[ ${HOME:-/} == / ]]; then
  export HOME=/home/flux-operator USER=flux-operator
fi
if [[ -z $python_path ]]; then
  for folder in "$view"/lib/python3*/site-packages; do
    if [[ -d $folder ]]; then
      python_path=$folder
    fi
  done
fi
if [[ $shadowed == true ]]; then
  export PYTHONPATH="$python_path${PYTHONPATH:+:$PYTHONPATH}"
else
  export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$python_path"
fi
if [[ -n $rc_extra ]]; then
  export FLUX_RC_EXTRA=$rc_extra
fi
