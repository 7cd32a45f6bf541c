# Lets Flux leave a mark when the lead broker has started (rc1, with the restored state) and when it shuts down
# (rc3). A broker that was stopped or killed before has not, whatever its exit code is.
# Reads: mount lead asFlux
marks=$mount/flux-operator-rc
if [[ $HOSTNAME == "$lead" ]]; then
  rm -f "$marks/1" "$marks/3"
  for level in 1 3; do
    mkdir -p "$marks/rc$level.d"
    printf -v mark %q "$marks/$level"
    cat >"$marks/rc$level.d/fournos" <<MARK
#!/bin/bash
# The brokers of flux batch run this, too.
[[ \$(flux getattr instance-level) != 0 ]] || touch $mark || true
MARK
    chmod 0755 "$marks/rc$level.d/fournos"
  done
  chmod a+rwx "$marks"
  export FLUX_RC_EXTRA="${FLUX_RC_EXTRA:+$FLUX_RC_EXTRA:}$marks"
  if [[ -n $asFlux ]]; then
    asFlux+=" FLUX_RC_EXTRA=$FLUX_RC_EXTRA"
  fi
fi
