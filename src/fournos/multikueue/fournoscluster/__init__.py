"""Makes workers of the FournosClusters labelled fournos.dev/multikueue-worker=true.

Each gets a MultiKueueCluster of its name, and a copy of its kubeconfig in Kueue's namespace, where Kueue
looks for it; the copy follows the original, and goes with the MultiKueueCluster, which owns it.
"""
