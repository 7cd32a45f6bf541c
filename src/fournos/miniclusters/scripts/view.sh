# Adds Flux from the view to the PATH and sets its Python path. Its software is at the path that it was built for.
# Reads: view python_path rc_extra
export PATH="$PATH:$view/bin"
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
export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$python_path"
if [[ -n $rc_extra ]]; then
  export FLUX_RC_EXTRA=$rc_extra
fi
