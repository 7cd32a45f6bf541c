"""Compares the requests of a Workload with the quota of its ClusterQueue (Kueue's API).  Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from fournos.api.quantities import parse_quantity
from fournos.api.slots import UNAVAILABLE_TAINT, why_unavailable
from fournos.insight.values import name_of, spec_of, status_of
from fournos.jobs.names import CLUSTER_NODE_LABEL
from fournos.kube.resource import Obj

ZERO: Final = Decimal(0)


@dataclass(frozen=True, slots=True)
class Line:
    """The request and quota of one resource in one flavor."""

    flavor: str
    resource: str
    asks: Decimal
    used: Decimal
    """The reserved quota, whether or not the jobs that hold it have started."""
    nominal: Decimal
    most: Decimal | None
    """The nominal quota plus the borrowing limit; None if borrowing in the cohort has no limit."""

    @property
    def free(self) -> Decimal:
        """The nominal quota that is not reserved, without what can be borrowed."""
        return max(ZERO, self.nominal - self.used)

    @property
    def fits(self) -> bool:
        return self.asks <= self.free

    @property
    def possible(self) -> bool:
        """True if the request would fit while no other Workload holds quota."""
        return self.most is None or self.asks <= self.most


@dataclass(frozen=True)
class Quota:
    """The quota that a Workload can use, compared with its requests."""

    lines: tuple[Line, ...]
    """The lines of the eligible flavors, in the ClusterQueue's order of preference.

    Where some can ever hold the requests, only of those.
    """
    elsewhere: tuple[str, ...]
    """Flavors that its node selector excludes, but where it would fit now."""
    uncovered: tuple[str, ...]
    """Requested resources that the ClusterQueue does not cover."""
    cohort: str
    closed: Mapping[str, str] = field(default_factory=dict)
    """Otherwise eligible flavors whose cluster takes no jobs → the reason."""

    @cached_property
    def flavors(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line.flavor for line in self.lines))

    def of(self, flavor: str) -> list[Line]:
        return [line for line in self.lines if line.flavor == flavor]

    @cached_property
    def fitting(self) -> list[str]:
        """The eligible flavors in which all requests fit now."""
        return [flavor for flavor in self.flavors if all(line.fits for line in self.of(flavor))]

    @cached_property
    def possible(self) -> list[str]:
        """The eligible flavors in which all requests fit while no other Workload holds quota."""
        return [flavor for flavor in self.flavors if all(line.possible for line in self.of(flavor))]


def requests(workload: Obj) -> dict[str, Decimal]:
    """Returns resource → amount, the sum over all pods of the Workload."""
    total: dict[str, Decimal] = {}
    for pod_set in spec_of(workload).get("podSets") or ():
        pod = (pod_set.get("template") or {}).get("spec") or {}
        for container in pod.get("containers") or ():
            for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
                needed = parse_quantity(amount) * int(pod_set.get("count") or 1)
                total[name] = total.get(name, ZERO) + needed
    return total


def selector(workload: Obj) -> Mapping[str, str]:
    """The node selectors of all pod sets, merged."""
    result: dict[str, str] = {}
    for pod_set in spec_of(workload).get("podSets") or ():
        pod = (pod_set.get("template") or {}).get("spec") or {}
        result.update(pod.get("nodeSelector") or {})
    return result


class Quotas:
    """The quota of a ClusterQueue, for many Workloads: those with the same requests are compared once.

    `flavors` are the ResourceFlavors.  A flavor that is not among them is assumed to carry its own name as
    the cluster label, as in the shipped configuration.
    """

    def __init__(self, cluster_queue: Obj, flavors: Sequence[Obj]) -> None:
        self._spec = spec_of(cluster_queue)
        self._cohort = str(self._spec.get("cohortName") or "")
        self._used = reserved(cluster_queue)
        self._labels = {name_of(flavor): spec_of(flavor).get("nodeLabels") or {} for flavor in flavors}
        self._closed = closed_flavors(flavors)
        self._found: dict[Hashable, Quota] = {}

    def of(self, workload: Obj) -> Quota:
        asks, wanted, tolerates = requests(workload), selector(workload), _tolerates(workload)
        key = (tuple(asks.items()), tuple(wanted.items()), tolerates)
        if key not in self._found:
            self._found[key] = self._compare(asks, wanted, {} if tolerates else self._closed)
        return self._found[key]

    def _compare(
        self, asks: Mapping[str, Decimal], wanted: Mapping[str, str], closed: Mapping[str, str]
    ) -> Quota:
        lines: list[Line] = []
        elsewhere: list[str] = []
        covered: set[str] = set()
        away: dict[str, str] = {}
        for group in self._spec.get("resourceGroups") or ():
            covered |= set(group.get("coveredResources") or ())
            entries = group.get("flavors") or ()
            known = {e["name"]: self._labels.get(e["name"], {CLUSTER_NODE_LABEL: e["name"]}) for e in entries}
            # Kueue compares only the label keys that some flavor of the group has.
            keys = {key for found in known.values() for key in found} & set(wanted)
            for entry in entries:
                own = [
                    _line(entry["name"], resource, asks[resource["name"]], self._used, self._cohort)
                    for resource in entry.get("resources") or ()
                    if resource["name"] in asks
                ]
                eligible = all(known[entry["name"]].get(key) == wanted[key] for key in keys)
                if entry["name"] in closed:
                    away |= {entry["name"]: closed[entry["name"]]} if eligible else {}
                elif eligible:
                    lines += own
                elif own and all(line.fits for line in own):
                    elsewhere.append(entry["name"])
        uncovered = tuple(sorted(set(asks) - covered))
        found = Quota(tuple(lines), tuple(elsewhere), uncovered, self._cohort, away)
        # A flavor without enough of one resource is not waited for, whatever is used of its others.
        return (
            replace(found, lines=tuple(line for line in lines if line.flavor in found.possible))
            if found.possible
            else found
        )


def closed_flavors(flavors: Iterable[Obj]) -> dict[str, str]:
    """Returns flavor → the reason why its cluster takes no jobs, from the flavor's taints."""
    return {
        name_of(flavor): why_unavailable(str(taint.get("value") or ""))
        for flavor in flavors
        for taint in spec_of(flavor).get("nodeTaints") or ()
        if taint.get("key") == UNAVAILABLE_TAINT
    }


def _tolerates(workload: Obj) -> bool:
    """True if the Workload tolerates a cluster that takes no jobs, as the Workload of a lock does."""
    return any(
        toleration.get("key") == UNAVAILABLE_TAINT
        for pod_set in spec_of(workload).get("podSets") or ()
        for toleration in ((pod_set.get("template") or {}).get("spec") or {}).get("tolerations") or ()
    )


def _line(
    flavor: str,
    resource: Mapping[str, Any],
    asks: Decimal,
    used: Mapping[tuple[str, str], Decimal],
    cohort: str,
) -> Line:
    nominal = parse_quantity(resource.get("nominalQuota") or 0)
    most: Decimal | None = nominal
    if cohort:
        limit = resource.get("borrowingLimit")
        most = None if limit is None else nominal + parse_quantity(limit)
    return Line(flavor, resource["name"], asks, used.get((flavor, resource["name"]), ZERO), nominal, most)


def reserved(cluster_queue: Obj) -> dict[tuple[str, str], Decimal]:
    """Returns (flavor, resource) → the reserved quota of a ClusterQueue."""
    return {
        (flavor["name"], resource["name"]): parse_quantity(resource.get("total") or 0)
        for flavor in status_of(cluster_queue).get("flavorsReservation") or ()
        for resource in flavor.get("resources") or ()
    }


def amount(value: Decimal) -> str:
    """Formats a quantity without an exponent or trailing zeros."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def rows(found: Quota) -> Sequence[tuple[str, ...]]:
    """The lines as texts: flavor, resource, request, free, used and nominal quota."""
    return [
        (
            line.flavor,
            line.resource,
            amount(line.asks),
            amount(line.free),
            amount(line.used),
            amount(line.nominal),
        )
        for line in found.lines
    ]
