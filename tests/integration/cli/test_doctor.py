"""fournos doctor against a real API server: what it serves is read as it is."""

from __future__ import annotations

import json
from typing import Any

from fournos.cli.errors import Exit
from tests.integration.cli.test_program import Program, fournos
from tests.integration.conftest import Server

__all__ = ["fournos"]
QUEUES = "/apis/kueue.x-k8s.io/v1beta2"


async def test_the_crds_are_of_this_version_and_the_missing_queue_is_a_fault(
    fournos: Program, server: Server, namespace: str
) -> None:
    before = await fournos("doctor", "-o", "json")
    found = {(one["area"], one["what"]): one for one in json.loads(before.out)}
    crds = {what: one["level"] for (area, what), one in found.items() if area == "CRDs"}
    assert crds["fournosjobs.fournos.dev"] == crds["fournosclusters.fournos.dev"] == "ok"
    assert found["Versions", "Kubernetes"]["level"] == "ok"
    assert {one["level"] for (area, _), one in found.items() if area == "Rights"} == {"ok"}
    assert found["Queues", "LocalQueue fournos-queue"]["level"] == "fault"
    assert before.code == Exit.FAILED

    queue: dict[str, Any] = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "fournos-queue"},
        "spec": {"clusterQueue": "nowhere"},
    }
    status, _ = await server("POST", f"{QUEUES}/namespaces/{namespace}/localqueues", queue)
    assert status == 201
    after = await fournos("doctor", "-o", "json")
    faults = {one["what"]: one["text"] for one in json.loads(after.out) if one["level"] == "fault"}
    assert faults["ClusterQueue nowhere"] == "it does not exist"
    assert after.code == Exit.FAILED
