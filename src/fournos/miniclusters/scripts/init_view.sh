# Copies the view. The image has exactly one directory with a view.
mkdir -p "$mount/view" "$mount/software"
for folder in /opt/views/._view/*; do
  cp -R "$folder/." "$mount/view/"
done
if [[ -d /opt/software ]]; then
  cp -R /opt/software/. "$mount/software/"
fi
