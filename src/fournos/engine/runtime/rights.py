"""The rights that a part's ServiceAccount needs, declared beside the code that needs them.

The shipped Roles and ClusterRoles are written by hand, since people read and adapt them; a test compares them
with these rows, so that no right is shipped without a feature, and no feature without its right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

OWN: Final = "own"
"""The namespace into which the part is deployed, where the manifests leave it open."""
CLUSTER: Final = "cluster"
"""Granted by a ClusterRoleBinding: in all namespaces, and for what has none."""
READ: Final = "get list watch"
OWNED: Final = "get list watch create patch delete"
"""The verbs on what a part makes, follows and deletes itself."""


@dataclass(frozen=True, slots=True)
class Right:
    """Some verbs on some resources."""

    where: str
    """A namespace of the manifests, OWN or CLUSTER."""
    verbs: str
    resources: str
    """Each as resource.group, with =name,name where it is granted for these objects alone."""
    why: str
    """The feature that needs it."""

    def __post_init__(self) -> None:
        if not (self.verbs and self.resources and self.why.strip()):
            raise ValueError(f"a right needs verbs, resources and a reason: {self}")


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of a part."""

    account: str
    """The ServiceAccount in the shipped manifests."""
    rows: tuple[Right, ...]
    all_namespaces: str = ""
    """Why it works in namespaces that are not known in advance; "" if it does not."""

    def __iter__(self) -> Iterator[Right]:
        return iter(self.rows)


METRICS: Final = (
    Right(CLUSTER, "create", "tokenreviews.authentication.k8s.io", "whose token asks for /metrics"),
    Right(CLUSTER, "create", "subjectaccessreviews.authorization.k8s.io", "whether it may have them"),
)
"""Every part serves /metrics to whoever may read them."""


def lease(namespace: str, name: str, verbs: str = "get patch update") -> tuple[Right, Right]:
    """The rights to a part's Lease."""
    leases, why = "leases.coordination.k8s.io", "leadership among replicas"
    return Right(namespace, "create", leases, why), Right(namespace, verbs, f"{leases}={name}", why)
