"""Tests of `fournos.web`."""
