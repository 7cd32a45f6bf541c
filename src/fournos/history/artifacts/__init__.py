"""Artifacts: the files that a run leaves behind."""
