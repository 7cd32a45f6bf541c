"""Tests of the page against a real API server."""
