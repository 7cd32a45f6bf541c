"""Faults between a client and a real API server."""
