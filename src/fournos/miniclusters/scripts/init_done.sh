# Whoever runs Flux writes here.
chmod -R a+rwX "$config" 2>/dev/null || true
chmod a+rwx "$mount" 2>/dev/null || true
touch "$mount/flux-operator-done.txt"
