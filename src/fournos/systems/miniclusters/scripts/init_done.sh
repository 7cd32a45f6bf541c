# The user that runs Flux is not known here, and must be able to write.
chmod -R a+rwX "$config" 2>/dev/null || true
chmod a+rwx "$mount" 2>/dev/null || true
touch "$mount/flux-operator-done.txt"
