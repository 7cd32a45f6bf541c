"""Composition root: what `fournos run` starts."""
