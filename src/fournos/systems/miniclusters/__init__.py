"""The MiniCluster operator: a Flux cluster as a custom resource."""
