"""Fournos: queue benchmark jobs, find them a cluster, run them there and report back."""

__version__ = "0.1.0"
