"""Vault entries to Kubernetes Secrets."""
