"""A namespace with a queue of its own, users, a node that is played, and what is looked at."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from fournos.api.kinds import APPWRAPPER
from fournos.api.slots import CLUSTER_NODE_LABEL, SLOT_RESOURCE
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.queueing.kinds import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
)
from tests.integration.appwrappers.kubelet import Kubelet
from tests.integration.conftest import Server
from tests.integration.stage import Stage
from tests.queues import cluster_queue, local_queue, whole
from tests.waiting import LIMIT

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUE = "user-queue"
FLAVOR = "appwrappers-a"
CLASSES = {"appwrappers-low": 10, "appwrappers-mid": 20, "appwrappers-high": 30}


class AppWrapperStage(Stage):
    """A namespace with a ClusterQueue and LocalQueues of its own, and a node that is played."""

    def __init__(self, namespace: str, client: Client, server: Server, kubelet: Kubelet) -> None:
        super().__init__(namespace, client)
        self.kubelet = kubelet
        self.tail: Callable[[], str] = lambda: ""
        """The operator's log, for a test that has failed."""
        self._server = server

    # --- what an administrator sets up ------------------------------------------------------------------

    async def set_up(self, *, cpu: str = "4") -> None:
        """A ClusterQueue of the test's own: its usage and its stops are this test's alone."""
        flavor = whole(RESOURCE_FLAVOR, FLAVOR, spec={"nodeLabels": {CLUSTER_NODE_LABEL: FLAVOR}})
        await self._server.apply(f"{KUEUE}/resourceflavors/{FLAVOR}", flavor)
        for name, value in CLASSES.items():
            body = whole(WORKLOAD_PRIORITY_CLASS, name, value=value)
            await self._server.apply(f"{KUEUE}/workloadpriorityclasses/{name}", body)
        queue = cluster_queue(self.namespace, {FLAVOR: {"cpu": cpu, SLOT_RESOURCE: "100"}})
        await self._server.apply(f"{KUEUE}/clusterqueues/{self.namespace}", queue)
        for name in (QUEUE, "fournos-queue"):
            path = f"{KUEUE}/namespaces/{self.namespace}/localqueues/{name}"
            await self._server.apply(path, local_queue(name, self.namespace))
        await self.until(self._queue_active, "the queue is not active")

    async def _queue_active(self) -> bool:
        return is_true(await self.get(LOCAL_QUEUE, QUEUE), "Active")

    async def stop_policy(self, policy: str) -> None:
        body = {"spec": {"stopPolicy": policy}}
        await self.client.patch(CLUSTER_QUEUE, Key("", self.namespace), body)

    # --- users ------------------------------------------------------------------------------------------

    async def submit(
        self,
        name: str,
        *templates: Obj,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        queue: str | None = QUEUE,
        **spec: Any,
    ) -> str:
        marks = {**({"kueue.x-k8s.io/queue-name": queue} if queue else {}), **(labels or {})}
        tolerance = {"retryPausePeriodDuration": "1s", **(annotations or {})}
        tuned = {f"workload.codeflare.dev.appwrapper/{k}": v for k, v in tolerance.items()}
        body = {
            "apiVersion": APPWRAPPER.api_version,
            "kind": APPWRAPPER.kind,
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": marks,
                "annotations": tuned,
            },
            "spec": {
                "suspend": queue is not None,
                "components": [{"template": one} for one in templates],
                **spec,
            },
        }
        await self.client.create(APPWRAPPER, body)
        return name

    # --- looking ----------------------------------------------------------------------------------------

    async def phase(self, name: str, *phases: str, limit: float = LIMIT) -> Obj:
        """Waits until the AppWrapper is in one of these phases; it, then."""
        found: Obj = {}

        async def there() -> bool:
            nonlocal found
            found = await self.get(APPWRAPPER, name)
            return (found.get("status") or {}).get("phase") in phases

        await self.until(
            there, lambda: f"{name} is not {' or '.join(phases)}: {messages_of(found)}", limit=limit
        )
        return found

    async def workloads(self, name: str) -> list[Obj]:
        """Those that an object of this name controls."""
        found = (await self.client.list(WORKLOAD, namespace=self.namespace)).items
        return [w for w in found if (w["metadata"].get("ownerReferences") or [{}])[0].get("name") == name]

    async def workload(self, name: str) -> Obj:
        (found,) = await self.workloads(name)
        return found

    async def condition(
        self, name: str, type_: str, status: str, reason: str = "", *, limit: float = LIMIT
    ) -> Obj:
        """Waits until its only Workload has the condition, and returns it."""
        found: Obj = {}

        async def there() -> bool:
            nonlocal found
            held = await self.workloads(name)
            found = (condition(held[0], type_) if len(held) == 1 else None) or {}
            return found.get("status") == status and str(found.get("reason")).startswith(reason)

        await self.until(there, lambda: f"{name}: no {type_}={status} {reason}: {found}", limit=limit)
        return found

    async def gone(self, resource: Resource, name: str, *, limit: float = LIMIT) -> None:
        await self.until(lambda: self.is_gone(resource, name), f"{resource.kind} {name} stays", limit=limit)

    async def reserved(self, resource: str = "cpu") -> str:
        """What Kueue counts as taken."""
        queue = await self.client.get(CLUSTER_QUEUE, Key("", self.namespace))
        for flavor in (queue.get("status") or {}).get("flavorsReservation") or ():
            for one in flavor["resources"]:
                if one["name"] == resource:
                    return str(one["total"])
        return "0"

    async def nothing_reserved(self) -> bool:
        """Kueue gives quota back a moment after it has seen the Workload's end: wait for it."""
        return await self.reserved() == "0"

    def logs(self) -> str:
        return self.tail()


def messages_of(obj: Obj) -> str:
    return json.dumps(obj.get("status"), indent=1)


# --- templates ---------------------------------------------------------------------------------------


def pod_spec(cpu: str = "1", *, slots: str = "") -> dict[str, Any]:
    """Returns a pod spec; slots are an extended resource, so the API server requires limits, too."""
    limits = {SLOT_RESOURCE: slots} if slots else {}
    container = {
        "name": "main",
        "image": "busybox",
        "resources": {"requests": {"cpu": cpu, **limits}, "limits": limits},
    }
    return {"restartPolicy": "Never", "containers": [container]}


def pod(name: str, cpu: str = "1", *, slots: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": pod_spec(cpu, slots=slots),
    }


def job(name: str, cpu: str = "1", *, slots: str = "", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {**spec, "template": {"spec": pod_spec(cpu, slots=slots)}},
    }
