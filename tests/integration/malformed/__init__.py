"""Malformed objects, against a real API server and the operator."""
