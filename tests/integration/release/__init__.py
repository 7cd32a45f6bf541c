"""Tests of what `make release` makes."""
