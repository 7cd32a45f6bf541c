"""Local clusters for development: real Kubernetes with Tekton and Kueue, on one machine, by name.

`python -m devcluster --help` for people; `ensure`, `up`, `down` and `Cluster` for programs.
"""

from devcluster.cluster import Cluster, down, ensure, up
from devcluster.errors import DevclusterError

__all__ = ["Cluster", "DevclusterError", "down", "ensure", "up"]
