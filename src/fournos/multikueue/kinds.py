"""The resource types of the adapter, and the kinds that it takes to workers, by their names in Kueue's
configuration: `Kind.version.group`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fournos.kube.resource import Obj, Resource
from fournos.multikueue.names import MULTIKUEUE
from fournos.queueing.kind_names import BadNameError, parse_name
from fournos.queueing.kinds import GROUP, VERSION

MULTIKUEUE_CONFIG = Resource(GROUP, VERSION, "MultiKueueConfig", "multikueueconfigs", namespaced=False)
MULTIKUEUE_CLUSTER = Resource(GROUP, VERSION, "MultiKueueCluster", "multikueueclusters", namespaced=False)

_KUBERNETES = frozenset({"batch", "apps"})
"""Groups whose API servers do not take any status: a suspended Job, say, can have no startTime."""
_PLURAL = re.compile(r"[a-z][a-z0-9]*")


def parse(name: str) -> Resource:
    """`Kind.version.group`, or `Kind.version.group=plural` where the plural is not the usual one.

    Raises BadNameError.
    """
    text, _, plural = name.strip().partition("=")
    if text.rpartition(".")[2] in _KUBERNETES:
        raise BadNameError(f"'{name}': Kubernetes' own kinds are left to Kueue's adapter ({MULTIKUEUE})")
    if plural and not _PLURAL.fullmatch(plural):
        raise BadNameError(f"'{name}': the plural after '=' is not the name of a resource type")
    return parse_name(text, plural=plural)


def parse_all(names: Iterable[str]) -> tuple[Resource, ...]:
    """Raises BadNameError, also for a kind that is named twice."""
    found: dict[tuple[str, str], Resource] = {}
    for name in names:
        resource = parse(name)
        if found.setdefault((resource.group, resource.kind), resource) is not resource:
            raise BadNameError(f"'{name}': the kind is named twice")
    return tuple(found.values())


_HOLD: dict[tuple[str, str], Obj] = {
    ("tekton.dev", "PipelineRun"): {"status": "PipelineRunPending"},
    # Its spec.suspend is the user's hold: its prebuilt Workload alone holds the job back.
    ("fournos.dev", "FournosJob"): {},
}


def held_back(resource: Resource, spec: Obj) -> Obj:
    """The fields of spec with which an object waits on the worker until its Workload lets it start.

    An unknown kind waits with spec.suspend, if it has that.
    """
    known = _HOLD.get((resource.group, resource.kind))
    if known is not None:
        return known
    return {"suspend": True} if "suspend" in spec else {}


_ENDED: dict[tuple[str, str], tuple[str, frozenset[str]]] = {
    # Its Workload finishes before its own status has the end.
    ("fournos.dev", "FournosJob"): ("phase", frozenset({"Succeeded", "Failed", "Stopped"})),
}


def has_ended(resource: Resource, status: Obj) -> bool:
    """Whether the status of a copy whose Workload is finished is its last one; of most kinds it is."""
    field, ends = _ENDED.get((resource.group, resource.kind), ("", frozenset()))
    return not field or status.get(field) in ends
