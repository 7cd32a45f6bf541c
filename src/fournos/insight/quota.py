"""Compares the requests of a Workload with the quota of its ClusterQueue (Kueue's API).  Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, TypeAlias

from fournos.api.slots import UNAVAILABLE_TAINT, why_unavailable
from fournos.engine.api.values import quantity_of
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.job import PRIORITY_LABEL
from fournos.engine.queueing.kinds import LOCAL_QUEUE as LOCAL_QUEUE
from fournos.engine.queueing.kinds import WORKLOAD as WORKLOAD
from fournos.engine.queueing.kinds import WORKLOAD_PRIORITY_CLASS as WORKLOAD_PRIORITY_CLASS
from fournos.engine.queueing.observe import At, quotas_of, reserved
from fournos.engine.queueing.podsets import queue_name as queue_name
from fournos.engine.queueing.workload import view
from fournos.insight.values import maps_in, name_of, spec_of, status_of
from fournos.systems.jobs.names import CLUSTER_NODE_LABEL

ZERO: Final = Decimal(0)
Queue: TypeAlias = Obj | KubeError | None
"""A KubeError stands in place of one that could not be read."""


def members(cluster_queue: Obj, queues: Iterable[Obj]) -> tuple[Obj, ...]:
    """Returns the other ClusterQueues of its cohort; none if it has no cohort."""
    cohort, own = spec_of(cluster_queue).get("cohortName"), name_of(cluster_queue)
    if not cohort:
        return ()
    return tuple(one for one in queues if spec_of(one).get("cohortName") == cohort and name_of(one) != own)


def available(cluster_queue: Obj, others: Iterable[Obj]) -> dict[At, Decimal]:
    """Returns (flavor, resource) → the quota that it can take now without preemption.

    It is negative where too much is used.  `others` are the members of its cohort that are known.
    """
    shared: dict[At, Decimal] = {}
    for queue in (cluster_queue, *others):
        used = reserved(queue)
        for at, quota in quotas_of(queue):
            not_lent, lent = _split(quota)
            shared[at] = shared.get(at, ZERO) + lent - max(ZERO, used.get(at, ZERO) - not_lent)
    result, used = {}, reserved(cluster_queue)
    for at, quota in quotas_of(cluster_queue):
        (not_lent, lent), taken = _split(quota), used.get(at, ZERO)
        from_cohort = shared[at]
        if quota.get("borrowingLimit") is not None:
            own = lent - max(ZERO, taken - not_lent)
            from_cohort = min(from_cohort, own + quantity_of(quota["borrowingLimit"]))
        result[at] = max(ZERO, not_lent - taken) + from_cohort
    return result


def _split(quota: Mapping[str, Any]) -> tuple[Decimal, Decimal]:
    """The part of a nominal quota that is never lent, and the part that the cohort shares."""
    nominal, limit = quantity_of(quota.get("nominalQuota") or 0), quota.get("lendingLimit")
    lent = nominal if limit is None else min(nominal, quantity_of(limit))
    return nominal - lent, lent


# --- fair sharing ---------------------------------------------------------------------------------------


LESS_USED: Final = "queue it by a LocalQueue that has used less; a priority counts within a LocalQueue only"
"""The advice where usage orders a queue."""


def usage_orders(cluster_queue: Queue) -> bool:
    """True if a queue serves the LocalQueue first that has used least, before priority and age count."""
    scope = spec_of(cluster_queue).get("admissionScope") if isinstance(cluster_queue, dict) else None
    return (scope or {}).get("admissionMode") == "UsageBasedAdmissionFairSharing"


def fair_shares(cluster_queue: Queue, local_queue: Queue) -> tuple[str, ...]:
    """Returns what besides priority and age decides whose turn it is, one sentence each."""
    lines = []
    if usage_orders(cluster_queue):
        status = status_of(local_queue).get("fairSharing") or {} if isinstance(local_queue, dict) else {}
        consumed = (status.get("admissionFairSharingStatus") or {}).get("consumedResources") or {}
        used = ", ".join(f"{amount} of {name}" for name, amount in sorted(consumed.items()))
        lines.append(
            "Kueue serves the LocalQueue first that has used least (AdmissionFairSharing)"
            + (f"; {name_of(local_queue)} has used {used}" if isinstance(local_queue, dict) and used else "")
        )
    share = status_of(cluster_queue).get("fairSharing") if isinstance(cluster_queue, dict) else None
    if isinstance(cluster_queue, dict) and share and spec_of(cluster_queue).get("cohortName"):
        weight = (spec_of(cluster_queue).get("fairSharing") or {}).get("weight", 1)
        lines.append(
            f"cohort {spec_of(cluster_queue)['cohortName']} is shared fairly: ClusterQueue "
            f"{name_of(cluster_queue)} has the share {share.get('weightedShare')} (weight {weight}), "
            "and the lowest share is served first"
        )
    return tuple(lines)


DEVICE_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""The prefix of a device class (DRA) that is requested as a resource (Kubernetes, resource/v1)."""


@dataclass(frozen=True, slots=True)
class QuotaLine:
    """The request and quota of one resource in one flavor."""

    flavor: str
    resource: str
    asks: Decimal
    used: Decimal
    """The reserved quota, whether or not the jobs that hold it have started."""
    nominal: Decimal
    most: Decimal | None
    """The nominal quota plus the borrowing limit; None if borrowing in the cohort has no limit."""
    available: Decimal | None = None
    """What can be taken now, borrowed quota of the cohort included; None without a cohort."""

    @property
    def free(self) -> Decimal:
        """The quota that is not reserved, with what can be borrowed of the cohort."""
        return max(ZERO, self.nominal - self.used if self.available is None else self.available)

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

    lines: tuple[QuotaLine, ...]
    """The lines of the eligible flavors, in the ClusterQueue's order of preference.

    Where some can ever hold the requests, only of those.
    """
    elsewhere: tuple[str, ...]
    """Flavors that its node selector excludes, but where it would fit now."""
    uncovered: tuple[str, ...]
    """Requested resources that the ClusterQueue does not cover."""
    closed: Mapping[str, str] = field(default_factory=dict)
    """Otherwise eligible flavors whose cluster takes no jobs → the reason."""

    @cached_property
    def flavors(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line.flavor for line in self.lines))

    def of(self, flavor: str) -> list[QuotaLine]:
        return [line for line in self.lines if line.flavor == flavor]

    @cached_property
    def fitting(self) -> list[str]:
        """The eligible flavors in which all requests fit now."""
        return [flavor for flavor in self.flavors if all(line.fits for line in self.of(flavor))]

    @property
    def never(self) -> bool:
        """True if no quota of the ClusterQueue could ever hold the requests."""
        return bool(self.uncovered) or not self.possible

    @cached_property
    def possible(self) -> list[str]:
        """The eligible flavors in which all requests fit while no other Workload holds quota."""
        return [flavor for flavor in self.flavors if all(line.possible for line in self.of(flavor))]


def requests(workload: Obj) -> dict[str, Decimal]:
    """Returns resource → amount, the sum over all pods of the Workload.

    As Kueue has counted it in the admission or in status.resourceRequests, with its exclusions and
    transformations of resources; before that from the templates.  With partial admission it is what was
    admitted, before that the least that can be.
    """
    admitted = (status_of(workload).get("admission") or {}).get("podSetAssignments") or ()
    usage = [assignment.get("resourceUsage") for assignment in admitted]
    if any(usage):
        return _sum(map(_amounts, usage))
    counted = {one.get("name"): one.get("resources") for one in _counted(workload)}
    return _sum(_least(pod_set, counted.get(pod_set.get("name"))) for pod_set in _pod_sets(workload))


def is_counted(workload: Obj) -> bool:
    """True if Kueue has shown what it counts for the Workload."""
    return bool(status_of(workload).get("admission") or _counted(workload))


def _counted(workload: Obj) -> Sequence[Obj]:
    return status_of(workload).get("resourceRequests") or ()


def _pod_sets(workload: Obj) -> Sequence[Obj]:
    return spec_of(workload).get("podSets") or ()


def _pods(workload: Obj) -> Iterator[Obj]:
    """The spec of the pods of each pod set."""
    yield from map(_pod_of, _pod_sets(workload))


def _pod_of(pod_set: Obj) -> Obj:
    """Kueue does not check the template: it may be of any shape."""
    template = pod_set.get("template")
    pod = template.get("spec") if isinstance(template, Mapping) else None
    return pod if isinstance(pod, Mapping) else {}


def _least(pod_set: Obj, counted: Mapping[str, Any] | None) -> dict[str, Decimal]:
    """The request of as many pods as have to be admitted; `counted` is what Kueue counts for all of them."""
    count = int(pod_set.get("count", 1))
    least = int(pod_set.get("minCount") or count)
    if counted is not None:
        return {name: amount * least / (count or 1) for name, amount in _amounts(counted).items()}
    return {name: amount * least for name, amount in _pod_requests(_pod_of(pod_set)).items()}


def uncounted_devices(workload: Obj) -> tuple[str, ...]:
    """Returns the claims and classes of devices (DRA) whose quota Kueue has not shown yet."""
    if is_counted(workload):
        return ()
    claims = [claim for pod in _pods(workload) for claim in maps_in(pod.get("resourceClaims"))]
    names = [claim.get("resourceClaimTemplateName") or claim.get("resourceClaimName") for claim in claims]
    classes = [name for name in requests(workload) if name.startswith(DEVICE_CLASS)]
    return tuple(
        dict.fromkeys(
            [str(name or claim.get("name")) for name, claim in zip(names, claims, strict=True)]
            + [name.removeprefix(DEVICE_CLASS) for name in classes]
        )
    )


def _pod_requests(pod: Obj) -> dict[str, Decimal]:
    """Returns what one pod takes: containers with sidecars, or the largest init container, and the overhead.

    As the scheduler counts (Kubernetes, "Resource sharing within containers"); requests of the pod as a whole
    replace those of its containers.
    """
    running = _sum(_of_container(container) for container in maps_in(pod.get("containers")))
    peak: dict[str, Decimal] = {}
    sidecars: dict[str, Decimal] = {}
    for container in maps_in(pod.get("initContainers")):
        needed = _sum([_of_container(container), sidecars])
        if container.get("restartPolicy") == "Always":
            sidecars = needed
        peak = {name: max(peak.get(name, ZERO), needed.get(name, ZERO)) for name in peak | needed}
    total = _sum([running, sidecars])
    total = {name: max(total.get(name, ZERO), peak.get(name, ZERO)) for name in total | peak}
    return _sum([total | _of_container(pod), _amounts(pod.get("overhead"))])


def _of_container(container: Obj) -> dict[str, Decimal]:
    """The requests of a container; a limit stands for a missing one."""
    resources = container.get("resources")
    if not isinstance(resources, Mapping):
        return {}
    return _amounts(resources.get("limits")) | _amounts(resources.get("requests"))


def _amounts(resources: object) -> dict[str, Decimal]:
    if not isinstance(resources, Mapping):
        return {}
    return {str(name): quantity_of(value) for name, value in resources.items()}


def _sum(parts: Iterable[Mapping[str, Decimal]]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, ZERO) + amount
    return total


def selector(workload: Obj) -> Mapping[str, str]:
    """The node selectors of all pod sets, merged."""
    result: dict[str, str] = {}
    for pod in _pods(workload):
        own = pod.get("nodeSelector")
        if isinstance(own, Mapping):
            result |= {str(name): str(text) for name, text in own.items()}
    return result


class Quotas:
    """The quota of a ClusterQueue, for many Workloads: those with the same requests are compared once.

    `flavors` are the ResourceFlavors.  A flavor that is not among them is assumed to carry its own name as
    the cluster label, as in the shipped configuration.  `cohort` are the other ClusterQueues of the cohort.
    """

    def __init__(self, cluster_queue: Obj, flavors: Sequence[Obj], cohort: Sequence[Obj] = ()) -> None:
        self._spec = spec_of(cluster_queue)
        self._cohort = str(self._spec.get("cohortName") or "")
        self._used = reserved(cluster_queue)
        self._available = available(cluster_queue, cohort) if self._cohort else {}
        self._labels = {name_of(flavor): spec_of(flavor).get("nodeLabels") or {} for flavor in flavors}
        self._closed = closed_flavors(flavors)
        self._found: dict[Hashable, Quota] = {}

    def of(self, workload: Obj) -> Quota:
        asks, labels, tolerates = requests(workload), selector(workload), _tolerates(workload)
        key = (tuple(asks.items()), tuple(labels.items()), tolerates)
        if key not in self._found:
            self._found[key] = self._compare(asks, labels, {} if tolerates else self._closed)
        return self._found[key]

    def _compare(
        self, asks: Mapping[str, Decimal], selected: Mapping[str, str], closed: Mapping[str, str]
    ) -> Quota:
        lines: list[QuotaLine] = []
        elsewhere: list[str] = []
        covered: set[str] = set()
        away: dict[str, str] = {}
        for group in self._spec.get("resourceGroups") or ():
            covered |= set(group.get("coveredResources") or ())
            entries = group.get("flavors") or ()
            labels = {
                e["name"]: self._labels.get(e["name"], {CLUSTER_NODE_LABEL: e["name"]}) for e in entries
            }
            # Kueue compares only the label keys that some flavor of the group has.
            keys = {key for found in labels.values() for key in found} & set(selected)
            for entry in entries:
                own = [
                    self._line(entry["name"], resource, asks[resource["name"]])
                    for resource in entry.get("resources") or ()
                    if resource["name"] in asks
                ]
                eligible = all(labels[entry["name"]].get(key) == selected[key] for key in keys)
                if entry["name"] in closed:
                    away |= {entry["name"]: closed[entry["name"]]} if eligible else {}
                elif eligible:
                    lines += own
                elif own and all(line.fits for line in own):
                    elsewhere.append(entry["name"])
        uncovered = tuple(sorted(set(asks) - covered))
        compared = Quota(tuple(lines), tuple(elsewhere), uncovered, away)
        # A flavor without enough of one resource is not waited for, whatever is used of its others.
        return (
            replace(compared, lines=tuple(line for line in lines if line.flavor in compared.possible))
            if compared.possible
            else compared
        )

    def _line(self, flavor: str, resource: Mapping[str, Any], asks: Decimal) -> QuotaLine:
        nominal = quantity_of(resource.get("nominalQuota") or 0)
        most: Decimal | None = nominal
        if self._cohort:
            limit = resource.get("borrowingLimit")
            most = None if limit is None else nominal + quantity_of(limit)
        at = (flavor, resource["name"])
        return QuotaLine(*at, asks, self._used.get(at, ZERO), nominal, most, self._available.get(at))


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
        for pod in _pods(workload)
        for toleration in maps_in(pod.get("tolerations"))
    )


def amount(value: Decimal) -> str:
    """Formats a quantity without an exponent or trailing zeros."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def rows(quota: Quota) -> Sequence[tuple[str, ...]]:
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
        for line in quota.lines
    ]


def priority_class(obj: Obj) -> str:
    """The name of the priority class in the object's labels; "" if there is none."""
    return str((obj["metadata"].get("labels") or {}).get(PRIORITY_LABEL) or "")


def workload_state(workload: Obj) -> str:
    """The state of a Workload in one word, such as Waiting or Admitted."""
    return view(workload).state.value
