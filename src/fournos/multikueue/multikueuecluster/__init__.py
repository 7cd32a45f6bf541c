"""Connects to the workers that MultiKueueClusters name by their kubeconfig Secrets, which it only reads."""
