"""The whole wanted state of ResourceFlavors and the ClusterQueue, from all FournosClusters at once.

Kueue's rules (its ClusterQueue webhook and CRD): a flavor's resources stand in the order of
coveredResources and name all of them; at most 64 flavors and 64 resources a group, 512 quotas a group.
What people put there themselves stays as it is; their flavors only get a quota of 0 for new resources,
which Kueue demands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

from fournos.api.quantities import parse_quantity
from fournos.clusters import names
from fournos.kube.resource import Obj
from fournos.queueing.slots import CLUSTER_NODE_LABEL, SLOT_RESOURCE, SLOTS_PER_CLUSTER, UNAVAILABLE_TAINT

NO_QUEUE: Final = "NoClusterQueue"
_SHOWN: Final = 200
_RESOURCE: Final = re.compile(
    r"((?=.{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
"""Kubernetes' qualified name: a domain and a slash, then at most 63 characters."""
MAX_FLAVORS: Final = 64
MAX_RESOURCES: Final = 64
MAX_QUOTAS: Final = 512


@dataclass(frozen=True, slots=True)
class Member:
    """A FournosCluster as the queue sees it."""

    name: str
    gpus: Mapping[str, int] = field(default_factory=dict)
    """By short name."""
    closed: str = ""
    """Why it takes no jobs, as a word; "" when it does."""
    for_lock: bool = False
    """Though closed it has slots, which only the lock can take."""
    removing: bool = False


@dataclass(frozen=True, slots=True)
class Sync:
    """What became of one cluster's quota: the condition QuotaSynced."""

    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    create: tuple[Obj, ...] = ()
    """ResourceFlavors to make."""
    taint: tuple[tuple[Obj, Sequence[Obj]], ...] = ()
    """ResourceFlavors whose taints differ, with the wanted ones."""
    queue: Obj | None = None
    """Merge patch of the ClusterQueue, bound to its resourceVersion; None: it is as wanted."""
    delete: tuple[Obj, ...] = ()
    """ResourceFlavors to delete once the queue no longer names them."""
    syncs: Mapping[str, Sync] = field(default_factory=dict)
    """By cluster."""


def ours(flavor: Obj) -> bool:
    return (flavor["metadata"].get("labels") or {}).get(names.MANAGED_BY_LABEL) == names.MANAGED_BY


def plan(members: Iterable[Member], flavors: Iterable[Obj], queue: Obj | None, *, prefix: str) -> Plan:
    """`prefix` begins the resource names of GPUs; `queue` is None while there is no ClusterQueue."""
    return _Planner(members, flavors, queue, prefix).plan()


class _Planner:
    def __init__(
        self, members: Iterable[Member], flavors: Iterable[Obj], queue: Obj | None, prefix: str
    ) -> None:
        self.flavors = {flavor["metadata"]["name"]: flavor for flavor in flavors}
        self.unnamed: dict[str, list[str]] = {}
        """By cluster: the resources that are left out."""
        everyone = sorted(members, key=lambda member: member.name)
        self.foreign = [m for m in everyone if m.name in self.flavors and not ours(self.flavors[m.name])]
        mine = [self._with_names(m, prefix) for m in everyone if m not in self.foreign]
        self.members = {member.name: member for member in mine if not member.removing}
        self.known = {member.name for member in everyone}
        self.gone = {member.name for member in mine if member.removing} | {
            name for name, flavor in self.flavors.items() if ours(flavor) and name not in self.known
        }
        self.queue = queue
        self.prefix = prefix
        self.notes: dict[str, Sync] = {}

    def _with_names(self, member: Member, prefix: str) -> Member:
        """Without GPUs that no resource can be named after: for one such name Kueue refuses all quotas."""
        odd = {short for short in member.gpus if not _is_resource(prefix + short)}
        if not odd:
            return member
        self.unnamed[member.name] = sorted(prefix + short for short in odd)
        return replace(member, gpus={short: n for short, n in member.gpus.items() if short not in odd})

    def plan(self) -> Plan:
        create, taint = self._flavors()
        patch = self._queue_patch() if self.queue is not None else None
        for member in self.foreign:
            text = (
                f"ResourceFlavor {member.name} was made by somebody else: it and its quotas stay as they are"
            )
            self.notes[member.name] = Sync("False", "ForeignFlavor", text)
        for name, resources in self.unnamed.items():
            if name in self.notes and self.notes[name].status == "True":
                text = f"no resource can be named {resources[0][:_SHOWN]}: it gets no quota, the rest has"
                self.notes[name] = Sync("False", "ResourceNameInvalid", text)
        if self.queue is None:
            for name in self.members:
                self.notes[name] = Sync("False", NO_QUEUE, "there is no ClusterQueue to give it quota")
        return Plan(
            create=create,
            taint=taint,
            queue=patch,
            delete=tuple(
                flavor
                for name, flavor in sorted(self.flavors.items())
                if name in self.gone and not flavor["metadata"].get("deletionTimestamp")
            ),
            syncs=self.notes,
        )

    # --- flavors -----------------------------------------------------------------------------------

    def _flavors(self) -> tuple[tuple[Obj, ...], tuple[tuple[Obj, Sequence[Obj]], ...]]:
        create, taint = [], []
        for name, member in self.members.items():
            existing = self.flavors.get(name)
            if existing is None:
                create.append(flavor_of(member))
                continue
            before = (existing.get("spec") or {}).get("nodeTaints") or []
            wanted = [one for one in before if one.get("key") != UNAVAILABLE_TAINT] + _taints(member)
            if wanted != before:
                taint.append((existing, wanted))
        return tuple(create), tuple(taint)

    # --- the queue ---------------------------------------------------------------------------------

    def _queue_patch(self) -> Obj | None:
        assert self.queue is not None
        groups: list[dict[str, Any]] = [
            dict(group) for group in self.queue["spec"].get("resourceGroups") or ()
        ]
        index = self._our_group(groups)
        added = _added_resources(self.queue)
        if index is None:
            if not self.members:
                return None
            groups.append({"coveredResources": [], "flavors": []})
            index = len(groups) - 1
        elsewhere = {
            name
            for number, group in enumerate(groups)
            if number != index
            for name in group["coveredResources"]
        }
        before = groups[index]
        after, now_added = self._group(before, added, elsewhere)
        self._compare(before, after)
        if after["flavors"]:
            groups[index] = after
        else:
            del groups[index]
        annotation = json.dumps(sorted(now_added)) if now_added else None
        meta = self.queue["metadata"]
        old_annotation = (meta.get("annotations") or {}).get(names.RESOURCES_ANNOTATION)
        if groups == list(self.queue["spec"].get("resourceGroups") or ()) and annotation == old_annotation:
            return None
        return {
            "metadata": {
                "resourceVersion": meta["resourceVersion"],
                "annotations": {names.RESOURCES_ANNOTATION: annotation},
            },
            "spec": {"resourceGroups": groups},
        }

    def _our_group(self, groups: Sequence[Mapping[str, Any]]) -> int | None:
        """The group of the slots; else of our GPUs; else the first."""
        covered = [(index, name) for index, group in enumerate(groups) for name in group["coveredResources"]]
        slots = [index for index, name in covered if name == SLOT_RESOURCE]
        gpus = [index for index, name in covered if name.startswith(self.prefix)]
        return next(iter([*slots, *gpus, *range(len(groups))]), None)

    def _group(
        self, before: Mapping[str, Any], added: frozenset[str], elsewhere: set[str]
    ) -> tuple[dict[str, Any], frozenset[str]]:
        entries = {entry["name"]: entry for entry in before["flavors"] if entry["name"] not in self.gone}
        resources = self._kept_resources(before, entries, added)
        had = set(resources)
        self._room_for(entries, resources, elsewhere)
        flavors = [
            {**entry, "resources": self._quotas(name, entry, resources)} for name, entry in entries.items()
        ]
        now_added = (added & set(resources)) | (set(resources) - had)
        return {**before, "coveredResources": resources, "flavors": flavors}, frozenset(now_added)

    def _kept_resources(
        self, before: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any]], added: frozenset[str]
    ) -> list[str]:
        """All but those that only clusters brought, which no cluster has and nobody gave a quota."""
        wanted = {self.prefix + short for member in self.members.values() for short in member.gpus}
        wanted |= {SLOT_RESOURCE} if self.members else set()

        def used(resource: str) -> bool:
            return any(_quota(entry, resource) for name, entry in entries.items() if name not in self.members)

        return [r for r in before["coveredResources"] if r in wanted or r not in added or used(r)]

    def _room_for(self, entries: dict[str, Any], resources: list[str], elsewhere: set[str]) -> None:
        """Adds what is missing within Kueue's limits: slots before GPUs, who is there already first."""
        order = sorted(self.members, key=lambda name: (name not in entries, name))
        if order and SLOT_RESOURCE not in resources and _fits(len(entries), len(resources) + 1):
            resources.append(SLOT_RESOURCE)
        for name in order:
            if name in entries or _fits(len(entries) + 1, len(resources)):
                entries.setdefault(name, {"name": name, "resources": []})
                continue
            text = f"the ClusterQueue is full: {MAX_FLAVORS} flavors, {MAX_QUOTAS} quotas"
            self.notes[name] = Sync("False", "LimitReached", text)
        for name in order:
            for resource in sorted(self.prefix + short for short in self.members[name].gpus):
                if name not in entries or resource in resources or resource in elsewhere:
                    continue
                if _fits(len(entries), len(resources) + 1):
                    resources.append(resource)
                else:
                    text = f"the ClusterQueue is full: no room for {resource} ({MAX_QUOTAS} quotas)"
                    self.notes[name] = Sync("False", "LimitReached", text)

    def _quotas(
        self, name: str, entry: Mapping[str, Any], resources: Sequence[str]
    ) -> list[Mapping[str, Any]]:
        old = {quota["name"]: quota for quota in entry["resources"]}
        member = self.members.get(name)
        result = []
        for resource in resources:
            quota = old.get(resource) or {"name": resource, "nominalQuota": "0"}
            amount = _amount(member, resource, self.prefix) if member else None
            if amount is not None and _number(quota["nominalQuota"]) != amount:
                quota = {**quota, "nominalQuota": str(amount)}
            result.append(quota)
        return result

    def _compare(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        there = {entry["name"]: entry for entry in before["flavors"]}
        wanted = {entry["name"]: entry for entry in after["flavors"]}
        used = in_use(self.queue)
        for name, member in self.members.items():
            if name in self.notes:
                continue
            flavor = self.flavors.get(name)
            if flavor is None or there.get(name) != wanted.get(name):
                self.notes[name] = Sync(
                    "False", "Pending", "the ClusterQueue has yet to be brought up to date"
                )
            elif flavor["metadata"].get("deletionTimestamp"):
                text = f"somebody deleted ResourceFlavor {name}; it is made again when it is gone"
                self.notes[name] = Sync("False", "FlavorTerminating", text)
            else:
                self.notes[name] = _synced(member, wanted[name], used)


def flavor_of(member: Member) -> Obj:
    spec: dict[str, Any] = {"nodeLabels": {CLUSTER_NODE_LABEL: member.name}}
    if member.closed:
        spec["nodeTaints"] = _taints(member)
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {
            "name": member.name,
            "labels": {names.MANAGED_BY_LABEL: names.MANAGED_BY, CLUSTER_NODE_LABEL: member.name},
        },
        "spec": spec,
    }


def _taints(member: Member) -> list[Obj]:
    """Kueue gives the flavor to nobody who does not tolerate it; what runs stays."""
    if not member.closed:
        return []
    return [{"key": UNAVAILABLE_TAINT, "value": member.closed, "effect": "NoSchedule"}]


def _amount(member: Member, resource: str, prefix: str) -> int | None:
    """The quota that a cluster gives; None: not ours to say."""
    if resource == SLOT_RESOURCE:
        # The taint keeps jobs away.  That quotas change, too, when it goes makes Kueue look again at who
        # waits: it does so for a change of the ClusterQueue, not for one of a flavor.
        return SLOTS_PER_CLUSTER if member.for_lock or not member.closed else 0
    if resource.startswith(prefix):
        return member.gpus.get(resource.removeprefix(prefix), 0)
    return None


def _synced(member: Member, entry: Mapping[str, Any], used: Mapping[tuple[str, str], int]) -> Sync:
    above = [
        f"{taken} of {quota['name']} in use, quota {quota['nominalQuota']}"
        for quota in entry["resources"]
        if (taken := used.get((member.name, quota["name"]), 0)) > _number(quota["nominalQuota"])
    ]
    if above:
        return Sync("True", "BelowUse", "fewer than are in use; jobs that run go on: " + ", ".join(above))
    if member.closed:
        return Sync("True", "Closed", f"takes no jobs: {member.closed}")
    return Sync("True", "Synced", "the ClusterQueue has its quotas")


def _quota(entry: Mapping[str, Any], resource: str) -> bool:
    return any(quota["name"] == resource and _number(quota["nominalQuota"]) for quota in entry["resources"])


def _is_resource(name: str) -> bool:
    return _RESOURCE.fullmatch(name) is not None


def _number(quantity: object) -> Decimal:
    """What cannot be read is a number that no quota is."""
    try:
        return parse_quantity(str(quantity))
    except ValueError:
        return Decimal(-1)


def _fits(flavors: int, resources: int) -> bool:
    return flavors <= MAX_FLAVORS and resources <= MAX_RESOURCES and flavors * resources <= MAX_QUOTAS


def _added_resources(queue: Obj) -> frozenset[str]:
    text = (queue["metadata"].get("annotations") or {}).get(names.RESOURCES_ANNOTATION)
    try:
        found = json.loads(text) if text else []
    except ValueError:
        return frozenset()
    return (
        frozenset(name for name in found if isinstance(name, str)) if isinstance(found, list) else frozenset()
    )


def above_quota(queue: Obj) -> list[Obj]:
    """Of status.flavorsReservation what is more than the quota."""
    quotas = {
        (entry["name"], quota["name"]): _number(quota["nominalQuota"])
        for group in (queue.get("spec") or {}).get("resourceGroups") or ()
        for entry in group.get("flavors") or ()
        for quota in entry.get("resources") or ()
    }
    above: dict[str, list[Obj]] = {}
    for (flavor, resource), total in in_use(queue).items():
        if total > quotas.get((flavor, resource), 0):
            above.setdefault(flavor, []).append({"name": resource, "total": str(total)})
    return [{"name": flavor, "resources": resources} for flavor, resources in above.items()]


def in_use(queue: Obj | None) -> dict[tuple[str, str], int]:
    """What admitted and reserving Workloads take, by flavor and resource (ClusterQueue status)."""
    flavors = ((queue or {}).get("status") or {}).get("flavorsReservation") or ()
    return {
        (flavor["name"], resource["name"]): int(_number(resource.get("total") or 0))
        for flavor in flavors
        for resource in flavor.get("resources") or ()
    }
