"""Logs: what the containers of a run print, stored while they run."""
