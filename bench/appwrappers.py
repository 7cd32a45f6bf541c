"""Measures AppWrappers of one Pod from submission to Succeeded.  The benchmark simulates the pods' node."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from bench.executors import TERMINAL, Onlooker
from bench.lifecycle import Subject
from bench.rig import NAMESPACE, QUEUE
from fournos.api.kinds import APPWRAPPER
from fournos.api.slots import SLOT_RESOURCE
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import format_time
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import POD, Obj, Resource, controller_of, is_terminating, key_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.appwrappers import names

REACTION = "pod ended → phase Succeeded"
HOPS: tuple[tuple[str, str, str, str], ...] = (
    ("submitted", "suspended", "operator", "submit → phase Suspended"),
    ("suspended", "workload", "operator or Kueue", "Suspended → Workload"),
    ("workload", "quota", "Kueue", "Workload → admitted by Kueue"),
    ("quota", "resumed", "operator or Kueue", "admitted → suspend is false"),
    ("resumed", "resuming", "operator", "suspend is false → phase Resuming"),
    ("resuming", "pod", "operator", "Resuming → Pod"),
    ("pod", "ended", "benchmark", "Pod → ended"),
    ("ended", TERMINAL, "operator", REACTION),
)


def settings(*, own: bool) -> dict[str, str]:
    """Returns the operator's settings; with `own` it creates the Workloads, otherwise Kueue does."""
    return {
        "FOURNOS_APPWRAPPER_WORKLOADS": "own" if own else "kueue",
        "FOURNOS_CONTROLLER_NAMESPACE": NAMESPACE,
    }


class Node(Onlooker):
    """Simulates a node on which each pod succeeds at once."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, names.TERMINAL)

    def handlers(self) -> dict[Resource, Callable[[Obj], None]]:
        return {APPWRAPPER: self._see_wrapper, WORKLOAD: self._see_workload, POD: self._see_pod}

    def _see_wrapper(self, wrapper: Obj) -> None:
        if not wrapper["spec"].get("suspend"):
            self.note(wrapper["metadata"]["name"], "resumed")
        self.see_phase(wrapper)

    def _see_workload(self, workload: Obj) -> None:
        name = str((controller_of(workload) or {}).get("name"))
        self.note(name, "workload")
        if is_true(workload, "Admitted"):
            self.note(name, "quota")

    def _see_pod(self, pod: Obj) -> None:
        name = pod["metadata"]["labels"][names.LABEL]
        self.note(name, "pod")
        if not condition(pod, "Ready") and not is_terminating(pod):
            self.begin(f"pod {name}", self._run(name, pod))

    async def _run(self, name: str, pod: Obj) -> None:
        now = format_time(datetime.now(UTC))
        ready = {"type": "Ready", "status": "False", "reason": "PodCompleted", "lastTransitionTime": now}
        status = {"phase": "Succeeded", "startTime": now, "conditions": [ready]}
        await self._client.patch(POD, key_of(pod), {"status": status}, subresource="status")
        self.note(name, "ended")


def pod_spec() -> dict[str, Any]:
    """Returns the spec of a pod that requests one slot."""
    slots = {SLOT_RESOURCE: "1"}
    container = {"name": "main", "image": "busybox", "resources": {"requests": slots, "limits": slots}}
    return {"restartPolicy": "Never", "containers": [container]}


def wrapper(name: str) -> dict[str, Any]:
    """Returns an AppWrapper with one such pod."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec()}
    return {
        "apiVersion": APPWRAPPER.api_version,
        "kind": APPWRAPPER.kind,
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"kueue.x-k8s.io/queue-name": QUEUE},
        },
        "spec": {"suspend": True, "components": [{"template": pod}]},
    }


SUBJECT = Subject(APPWRAPPER, wrapper, HOPS)
