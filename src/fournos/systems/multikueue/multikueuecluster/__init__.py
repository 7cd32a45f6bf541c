"""Connects to the workers of MultiKueueClusters through their kubeconfig Secrets; writes neither of them."""
