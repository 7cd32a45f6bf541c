# Loads the archive as the lead broker starts, and replaces it after the lead broker's end.
# Flux writes its state also if it is stopped before it has loaded the archive, or if it cannot load it. So it writes
# to a file beside the archive. The name keeps its ending, which selects the compression.
# Reads: archive lead marks asFlux
saved="$(dirname "$archive")/.new-$(basename "$archive")"
if [[ $HOSTNAME == "$lead" ]]; then
  mkdir -p "$(dirname "$archive")"
  rm -f "$saved"
  options+=("-Scontent.dump=$saved")
  if [[ -e $archive ]]; then
    options+=("-Scontent.restore=$archive")
  fi
fi

keep_archive() {
  local whole=true
  [[ -e $saved ]] || return 0
  if [[ $saved == *gz ]] && command -v gzip >/dev/null && ! gzip -t "$saved" 2>/dev/null; then
    whole=false
  fi
  # shellcheck disable=SC2086 # a prefix of several words
  if [[ ! -e $marks/1 || ! -s $saved || $whole == false ]] || ! $asFlux mv -f "$saved" "$archive"; then
    printf 'fournos: %s stays as it was: %s is not the whole state\n' "$archive" "$saved" >&2
  fi
}
