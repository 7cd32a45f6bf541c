"""Tests of `fournos.web.pages`."""
