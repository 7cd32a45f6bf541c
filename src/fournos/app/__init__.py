"""The composition root of `fournos run`."""
