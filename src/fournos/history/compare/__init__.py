"""Comparison of runs: first what differs between them, then their KPIs side by side."""
