"""Alerts: confirmed changes of results and silent series are announced, each once."""
