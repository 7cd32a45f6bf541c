"""Measures MiniClusters of four pods from submission until all their objects exist.  No Job runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.executors import TERMINAL, Onlooker
from bench.lifecycle import Subject
from bench.rig import NAMESPACE, QUEUE
from fournos.api.kinds import MINICLUSTER
from fournos.api.slots import SLOT_RESOURCE
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import CONFIG_MAP, JOB, Obj, Resource
from fournos.engine.queueing.workload import QUEUE_NAME_LABEL
from fournos.systems.miniclusters import names

SIZE = 4
MADE = "Succeeded"
"""The terminal phase of a MiniCluster in this benchmark: set when its Job exists, which is created last."""
HOPS: tuple[tuple[str, str, str, str], ...] = (
    ("submitted", "waiting", "operator", "submit → phase Waiting"),
    ("waiting", "configmap", "operator", "Waiting → entrypoint ConfigMap"),
    ("configmap", TERMINAL, "operator", "ConfigMap → Job"),
)


SETTINGS = {"FOURNOS_CONTROLLER_NAMESPACE": NAMESPACE}
"""Of the operator."""


class Onlookers(Onlooker):
    """Records the events of MiniClusters.  It simulates no Job controller, so no pods exist."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, (MADE,))

    def handlers(self) -> dict[Resource, Callable[[Obj], None]]:
        return {MINICLUSTER: self._see, CONFIG_MAP: self._see_config_map, JOB: self._see_job}

    def _see(self, minicluster: Obj) -> None:
        if (minicluster.get("status") or {}).get("phase"):
            self.note(minicluster["metadata"]["name"], "waiting")

    def _see_config_map(self, found: Obj) -> None:
        name = (found["metadata"].get("labels") or {}).get(names.MINICLUSTER_LABEL)
        if name:
            self.note(name, "configmap")

    def _see_job(self, job: Obj) -> None:
        self.see_phase({"metadata": job["metadata"], "status": {"phase": MADE}})


def minicluster(name: str) -> dict[str, Any]:
    return {
        "apiVersion": MINICLUSTER.api_version,
        "kind": MINICLUSTER.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"size": SIZE, "containers": [{"image": "ubuntu:noble", "command": "echo hello world"}]},
    }


def queued(name: str) -> dict[str, Any]:
    """Returns one of a single pod that waits for a slot."""
    body = minicluster(name)
    slots = {SLOT_RESOURCE: "1"}
    container = {**body["spec"]["containers"][0], "resources": {"requests": slots, "limits": slots}}
    return {
        **body,
        "metadata": {**body["metadata"], "labels": {QUEUE_NAME_LABEL: QUEUE}},
        "spec": {"suspend": True, "size": 1, "containers": [container]},
    }


SUBJECT = Subject(MINICLUSTER, minicluster, HOPS)
QUEUED = Subject(MINICLUSTER, queued, HOPS)
