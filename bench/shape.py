"""What is queued: classes of size and priority over queues, the same for Kueue alone and for each system.

The classes are those of Kueue's own performance tests.  Quota is never short, so that a rate is what the
parties can do and not what the quota lets through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from bench import appwrappers, lifecycle, miniclusters
from bench.rig import GPU, NAMESPACE, QUEUE, job, queue_objects
from fournos.api.slots import SLOT_RESOURCE
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.kinds import WORKLOAD, WORKLOAD_PRIORITY_CLASS
from fournos.engine.queueing.workload import QUEUE_NAME_LABEL

FLAVOR: Final = "bench-1"
SLOTS: Final = 100_000
_PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"
_HUNDRED: Final = 100


@dataclass(frozen=True, slots=True)
class Class:
    """A class of objects: `share` of a hundred, with so many GPUs and this priority."""

    name: str
    share: int
    gpus: int
    priority: int


CLASSES: Final = (Class("small", 70, 1, 50), Class("medium", 20, 4, 100), Class("large", 10, 8, 200))


@dataclass(frozen=True, slots=True)
class Shape:
    """Bodies of objects whose names end in a number, which chooses class and queue."""

    queues: int = 1
    classes: int = len(CLASSES)

    def objects(self) -> list[dict[str, Any]]:
        """Returns priority classes and the queues beside the one that every rig has."""
        quotas = {FLAVOR: SLOTS}
        further = [each for number in range(1, self.queues) for each in queue_objects(quotas, _queue(number))]
        return [*map(_priority_class, CLASSES[: self.classes]), *further]

    def class_of(self, name: str) -> Class:
        """Shares are kept within each hundred objects; with fewer classes the last one takes the rest."""
        place, limit = _number(name) * 37 % _HUNDRED, 0
        for each in CLASSES[: self.classes]:
            limit += each.share
            if place < limit:
                return each
        return CLASSES[self.classes - 1]

    def queue_of(self, name: str) -> str:
        return _queue(_number(name) % self.queues)

    def workload(self, name: str) -> Obj:
        """Returns a Workload without a job, as an integration of Kueue would make it."""
        chosen = self.class_of(name)
        return {
            "apiVersion": WORKLOAD.api_version,
            "kind": WORKLOAD.kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "queueName": self.queue_of(name),
                "priority": chosen.priority,
                "priorityClassRef": {
                    "group": WORKLOAD_PRIORITY_CLASS.group,
                    "kind": WORKLOAD_PRIORITY_CLASS.kind,
                    "name": chosen.name,
                },
                "podSets": [{"name": "main", "count": 1, "template": {"spec": _pod_spec(chosen)}}],
            },
        }

    def fournosjob(self, name: str) -> Obj:
        """Returns a FournosJob.  An operator has one LocalQueue, so all are in the first queue."""
        body, chosen = job(name), self.class_of(name)
        hardware = {"gpuType": GPU, "gpuCount": chosen.gpus}
        return {**body, "spec": {**body["spec"], "hardware": hardware, "priority": chosen.name}}

    def appwrapper(self, name: str) -> Obj:
        body = appwrappers.wrapper(name)
        (component,) = body["spec"]["components"]
        pod = {**component["template"], "spec": _pod_spec(self.class_of(name))}
        return {
            **body,
            "metadata": {**body["metadata"], "labels": self._labels(name)},
            "spec": {**body["spec"], "components": [{"template": pod}]},
        }

    def minicluster(self, name: str) -> Obj:
        body = miniclusters.minicluster(name)
        container = {**body["spec"]["containers"][0], "resources": _resources(self.class_of(name))}
        return {
            **body,
            "metadata": {**body["metadata"], "labels": self._labels(name)},
            "spec": {**body["spec"], "suspend": True, "size": 1, "containers": [container]},
        }

    def subjects(self) -> dict[str, lifecycle.Subject]:
        """Returns system → what is measured of it."""
        made: dict[str, tuple[lifecycle.Subject, Callable[[str], Obj]]] = {
            "fournosjobs": (lifecycle.JOBS, self.fournosjob),
            "appwrappers": (appwrappers.SUBJECT, self.appwrapper),
            "miniclusters": (miniclusters.SUBJECT, self.minicluster),
        }
        return {
            system: lifecycle.Subject(subject.resource, body, subject.hops)
            for system, (subject, body) in made.items()
        }

    def _labels(self, name: str) -> dict[str, str]:
        return {QUEUE_NAME_LABEL: self.queue_of(name), _PRIORITY_LABEL: self.class_of(name).name}


def _queue(number: int) -> str:
    return f"{QUEUE}-{number}" if number else QUEUE


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _resources(chosen: Class) -> dict[str, Any]:
    amounts = {SLOT_RESOURCE: "1", f"fournos/gpu-{GPU}": str(chosen.gpus)}
    return {"requests": amounts, "limits": amounts}


def _pod_spec(chosen: Class) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": _resources(chosen)}
    return {"restartPolicy": "Never", "containers": [container]}


def _priority_class(chosen: Class) -> dict[str, Any]:
    return {
        "apiVersion": WORKLOAD_PRIORITY_CLASS.api_version,
        "kind": WORKLOAD_PRIORITY_CLASS.kind,
        "metadata": {"name": chosen.name},
        "value": chosen.priority,
    }
