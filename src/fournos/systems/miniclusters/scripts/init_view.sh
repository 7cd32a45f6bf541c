# Copies the view. The image has exactly one directory with a view.
mkdir -p "$mount/view" "$mount/software"
for folder in /opt/views/._view/*; do
  cp -R "$folder/." "$mount/view/"
done
if [[ -d /opt/software ]]; then
  cp -R /opt/software/. "$mount/software/"
fi
# With a view, upstream keeps the configuration in it. Users' configurations and scripts name these paths.
for name in curve run var/lib/flux etc/flux/config etc/flux/system/R etc/flux/system/hostlist; do
  mkdir -p "$view/$(dirname "$name")"
  if [[ -L $view/$name || ! -e $view/$name ]]; then
    ln -sfn "$config/$name" "$view/$name"
  fi
done
