"""Logs: what the containers of a run have printed, read once when each has ended, and stored whole."""
