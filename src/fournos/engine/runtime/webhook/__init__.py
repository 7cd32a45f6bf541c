"""Admission webhooks: each operator declares what it reviews; this package serves the reviews."""
