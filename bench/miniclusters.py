"""Measures MiniClusters of four pods from submission until all their objects exist.  No Job runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.executors import TERMINAL, Onlooker
from bench.lifecycle import Round, Subject, measured
from bench.operator import operator
from bench.rig import NAMESPACE, new_rig
from dev import resources
from fournos.api.kinds import MINICLUSTER
from fournos.engine.kube.client import Client
from fournos.engine.kube.kinds import CONFIG_MAP, JOB
from fournos.engine.kube.resource import Obj, Resource
from fournos.systems.miniclusters import names

SIZE = 4
MADE = "Succeeded"
"""The terminal phase of a MiniCluster in this benchmark: set when its Job exists, which is created last."""
HOPS: tuple[tuple[str, str, str, str], ...] = (
    ("submitted", "waiting", "operator", "submit → phase Waiting"),
    ("waiting", "configmap", "operator", "Waiting → entrypoint ConfigMap"),
    ("configmap", TERMINAL, "operator", "ConfigMap → Job"),
)


SETTINGS = {"FOURNOS_MINICLUSTER_NAMESPACE": NAMESPACE}
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


SUBJECT = Subject(MINICLUSTER, minicluster, HOPS)


async def measure(
    name: str, sizes: Sequence[int], *, directory: Path, profile: Path | None, keep: bool
) -> list[Round]:
    """Measures one round for each size on a new cluster `name`, whose Job controller is off."""
    extra = [
        *await asyncio.to_thread(resources.load, "deploy/crd/miniclusters.yaml"),
        *await asyncio.to_thread(resources.load, "deploy/minicluster/kueue.yaml"),
    ]
    async with (
        new_rig(name, quotas={"bench-1": 1}, keep=keep, extra=extra) as rig,
        operator(
            rig.cluster.kubeconfig_path,
            directory / "operator.log",
            enable="miniclusters",
            settings=SETTINGS,
            profile=profile,
        ) as running,
        Onlookers(rig.client).watching() as onlookers,
    ):
        return await measured(rig, running, onlookers, SUBJECT, sizes)
