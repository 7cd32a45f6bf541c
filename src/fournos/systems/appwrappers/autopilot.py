"""Autopilot node health: a node's label shows the state of its devices (the AppWrapper documentation).

The values are WARN (prefer other nodes), TESTING (place no new pods) and EVICT (no pod may stay).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.engine.kube.resource import Obj
from fournos.systems.appwrappers.settings import AppWrapperSettings

LABEL: Final = "autopilot.ibm.com/gpuhealth"
_WARN, _TESTING, _EVICT = "WARN", "TESTING", "EVICT"


def evicting(node: Obj, settings: AppWrapperSettings) -> frozenset[str]:
    """Returns the resources whose users must leave this node."""
    labels = node["metadata"].get("labels") or {}
    return frozenset(settings.autopilot_resources) if labels.get(LABEL) == _EVICT else frozenset()


def uses(pod_spec: Obj, resources: frozenset[str], *, init: bool = False) -> bool:
    """True if a container requests or limits one of the resources with an amount other than zero."""
    sections = ("containers", "initContainers") if init else ("containers",)
    containers = [one for section in sections for one in pod_spec.get(section) or ()]
    return any(
        str(amount) != "0"
        for container in containers
        for kind in ("requests", "limits")
        for name, amount in ((container.get("resources") or {}).get(kind) or {}).items()
        if name in resources
    )


def keep_away(template: Mapping[str, Any], settings: AppWrapperSettings) -> dict[str, Any]:
    """Returns the pod template with node affinities against unhealthy nodes.

    It is unchanged if the pod does not use a resource that Autopilot monitors.
    """
    spec = template["spec"]
    if not uses(spec, frozenset(settings.autopilot_resources), init=True):
        return dict(template)
    affinity = dict(spec.get("affinity") or {})
    nodes = dict(affinity.get("nodeAffinity") or {})
    required = dict(nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {})
    bad = {"key": LABEL, "operator": "NotIn", "values": [_TESTING, _EVICT]}
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), bad]} for term in terms
    ]
    warned = {"key": LABEL, "operator": "NotIn", "values": [_WARN]}
    preferred = {
        "weight": settings.prefer_no_schedule_weight,
        "preference": {"matchExpressions": [warned]},
    }
    nodes["requiredDuringSchedulingIgnoredDuringExecution"] = required
    nodes["preferredDuringSchedulingIgnoredDuringExecution"] = [
        *(nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ()),
        preferred,
    ]
    affinity["nodeAffinity"] = nodes
    return {**template, "spec": {**spec, "affinity": affinity}}
