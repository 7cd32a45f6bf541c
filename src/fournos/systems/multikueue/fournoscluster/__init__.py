"""Registers FournosClusters with the label fournos.dev/multikueue-worker=true as workers.

Each gets a MultiKueueCluster of its name, and a copy of its kubeconfig in Kueue's namespace, where Kueue
reads it.  The copy is updated with the original.  It is owned by the MultiKueueCluster and deleted with it.
"""
