"""Writes what happens to the objects of queued kinds into the history."""
