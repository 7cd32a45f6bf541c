"""Local clusters for development: real Kubernetes with Tekton and Kueue, on one machine, by name.

The command line is `python -m devcluster`; the Python interface is `ensure`, `up`, `down` and `Cluster`.
"""

from devcluster.cluster import Cluster, down, ensure, up
from devcluster.errors import DevclusterError

__all__ = ["Cluster", "DevclusterError", "down", "ensure", "up"]
