"""MiniCluster: a Flux cluster as a custom resource."""
