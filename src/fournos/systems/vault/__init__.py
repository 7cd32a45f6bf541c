"""Synchronization of Vault entries to Kubernetes Secrets."""
