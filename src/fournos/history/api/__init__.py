"""The API of the history, history.fournos.dev/v1, which the Kubernetes API server forwards to."""
