"""Runs as their pages show them: live jobs and those that only the history has."""
