"""The `fournos` command line."""
