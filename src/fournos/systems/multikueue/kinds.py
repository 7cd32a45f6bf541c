"""The resource types of the adapter, and the kinds that it dispatches.

Kinds are written as in Kueue's configuration: `Kind.version.group`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fournos.api.phase import TERMINAL
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.queueing.kind_names import BadNameError, parse_name
from fournos.engine.queueing.kinds import GROUP, VERSION
from fournos.systems.multikueue.names import MULTIKUEUE

MULTIKUEUE_CONFIG = Resource(GROUP, VERSION, "MultiKueueConfig", "multikueueconfigs", namespaced=False)
MULTIKUEUE_CLUSTER = Resource(GROUP, VERSION, "MultiKueueCluster", "multikueueclusters", namespaced=False)

_KUBERNETES = frozenset({"batch", "apps"})
"""Excluded API groups: their API servers validate status (a suspended Job cannot have a startTime)."""
_PLURAL = re.compile(r"[a-z][a-z0-9]*")


def parse(name: str) -> Resource:
    """Parses `Kind.version.group`, or `Kind.version.group=plural` for an irregular plural.

    Raises BadNameError.
    """
    text, _, plural = name.strip().partition("=")
    if text.rpartition(".")[2] in _KUBERNETES:
        raise BadNameError(f"'{name}': Kubernetes' own kinds are left to Kueue's adapter ({MULTIKUEUE})")
    if plural and not _PLURAL.fullmatch(plural):
        raise BadNameError(f"'{name}': the plural after '=' is not the name of a resource type")
    return parse_name(text, plural=plural)


def parse_all(names: Iterable[str]) -> tuple[Resource, ...]:
    """Parses all names.  Raises BadNameError, also for a kind that occurs twice."""
    resources: dict[tuple[str, str], Resource] = {}
    for name in names:
        resource = parse(name)
        if resources.setdefault((resource.group, resource.kind), resource) is not resource:
            raise BadNameError(f"'{name}': the kind is named twice")
    return tuple(resources.values())


_HOLD: dict[tuple[str, str], Obj] = {
    ("tekton.dev", "PipelineRun"): {"status": "PipelineRunPending"},
    # spec.suspend is the user's hold; only the prebuilt Workload holds the job back.
    ("fournos.dev", "FournosJob"): {},
}


def held_back(resource: Resource, spec: Obj) -> Obj:
    """Returns the spec fields that make a copy wait on the worker until its Workload is admitted.

    An unknown kind waits by spec.suspend, if its spec has that field.
    """
    known = _HOLD.get((resource.group, resource.kind))
    if known is not None:
        return known
    return {"suspend": True} if "suspend" in spec else {}


_ENDED: dict[tuple[str, str], tuple[str, frozenset[str]]] = {
    # The Workload of a FournosJob finishes before the job's own status has the end.
    ("fournos.dev", "FournosJob"): ("phase", TERMINAL),
}


def has_ended(resource: Resource, status: Obj) -> bool:
    """Returns True if the status of a copy with a finished Workload is its last one, as for most kinds."""
    field, ends = _ENDED.get((resource.group, resource.kind), ("", frozenset()))
    return not field or status.get(field) in ends
