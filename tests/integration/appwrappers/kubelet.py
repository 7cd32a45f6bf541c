"""The node, played on a real API server that has none: pods get ready and end on demand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from fournos.engine.api.conditions import is_true
from fournos.engine.api.values import format_time
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import POD, Obj, is_terminating, key_of, uid_of
from fournos.engine.kube.store import Store


class Kubelet:
    """Runs every pod of a namespace to its end, at once; pods are named by what their names begin with."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.endless: set[str] = set()
        """Pods that run until they are taken out of here, or deleted."""
        self.stuck: set[str] = set()
        """Pods that never start."""
        self.failing: set[str] = set()
        self.seen: dict[str, Obj] = {}
        """UID -> every pod that ever was, as it was first."""
        self._client = client
        self._changed = asyncio.Event()
        self._pods = Store()
        self._reflector = Reflector(client, POD, self._pods, namespace=namespace, on_change=self._see)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[Kubelet]:
        tasks = [asyncio.create_task(self._reflector.run()), asyncio.create_task(self._work())]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def pods(self) -> list[Obj]:
        return list(self._pods)

    def live(self, *prefixes: str) -> list[Obj]:
        """Pods that have not ended."""
        return [
            pod
            for pod in self._pods
            if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
            and (not prefixes or pod["metadata"]["name"].startswith(prefixes))
        ]

    def finish(self, *prefixes: str) -> None:
        self.endless.difference_update(prefixes)
        self.stuck.difference_update(prefixes)
        self._changed.set()

    def _see(self, _type: str, _old: Obj | None, new: Obj | None) -> None:
        if new is not None:
            self.seen.setdefault(uid_of(new), new)
        self._changed.set()

    async def _work(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            for pod in list(self._pods):
                status = self._next(pod)
                if status is None:
                    continue
                try:
                    body = {"metadata": {"uid": uid_of(pod)}, "status": status}
                    self._pods.assume(await self._client.patch(POD, key_of(pod), body, subresource="status"))
                    self._changed.set()
                except KubeError:
                    continue  # gone meanwhile

    def _next(self, pod: Obj) -> dict[str, Any] | None:
        name, phase = pod["metadata"]["name"], (pod.get("status") or {}).get("phase")
        if is_terminating(pod) or phase in ("Succeeded", "Failed") or _among(name, self.stuck):
            return None
        if not is_true(pod, "Ready"):
            return {"phase": "Running", "startTime": _now(), "conditions": [_ready("True")]}
        if _among(name, self.endless):
            return None
        failed = _among(name, self.failing)
        ended = {"name": "main", "image": "i", "imageID": "i", "ready": False, "restartCount": 0}
        ended["state"] = {"terminated": {"exitCode": 3 if failed else 0, "reason": "Completed"}}
        phase = "Failed" if failed else "Succeeded"
        return {"phase": phase, "conditions": [_ready("False")], "containerStatuses": [ended]}


def _among(name: str, prefixes: set[str]) -> bool:
    return any(name.startswith(prefix) for prefix in prefixes)


def _ready(status: str) -> dict[str, Any]:
    return {"type": "Ready", "status": status, "lastTransitionTime": _now()}


def _now() -> str:
    return format_time(datetime.now(UTC))
