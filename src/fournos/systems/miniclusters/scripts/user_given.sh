# A user for Flux is configured. It is created if it does not exist, and sudo switches to it.
# Reads: user uid
if ! id -u "$user" >/dev/null 2>&1; then
  useradd --uid "$uid" --create-home "$user" 2>/dev/null ||
    adduser --disabled-password --gecos '' --uid "$uid" "$user" >/dev/null 2>&1 ||
    adduser -D -u "$uid" "$user" 2>/dev/null ||
    fail "the image has no user $user, and it cannot be made: write the name of a user of the image in fluxUser"
fi
asFlux=""
if [[ $(id -u) != "$(id -u "$user")" ]]; then
  command -v sudo >/dev/null ||
    fail "Flux is to run as $user, and the image has no sudo: add it, or leave fluxUser and runFluxAsRoot out"
  home=$(getent passwd "$user" 2>/dev/null | cut -d: -f6 || true)
  asFlux="sudo -u $user -E PYTHONPATH=$PYTHONPATH -E PATH=$PATH"
  asFlux+=" -E LD_LIBRARY_PATH=$LD_LIBRARY_PATH -E HOME=${home:-/home/$user}"
fi
