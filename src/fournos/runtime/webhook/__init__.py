"""Admission webhooks: a system says what it reviews, this serves it."""
