"""Every object of a broad table of MiniClusters, as a real API server takes it."""

from __future__ import annotations

from typing import Any

from fournos.engine.kube.resource import CONFIG_MAP, JOB, POD, SECRET, SERVICE, Obj
from fournos.systems.miniclusters import broker, build
from tests.integration.conftest import Server
from tests.unit.systems.miniclusters.objects import SETTINGS, TABLE

KINDS = {resource.kind: resource for resource in (CONFIG_MAP, JOB, POD, SECRET, SERVICE)}


def all_of(minicluster: dict[str, Any]) -> list[Obj]:
    service = build.headless_service(minicluster, SETTINGS)
    assert not isinstance(service, str)
    certificate = broker.certificate(bytes(32), host="flux-sample-0")
    return [
        build.certificate_secret(minicluster, SETTINGS, certificate=certificate),
        service,
        *build.wanted(minicluster, SETTINGS),
    ]


async def test_all_are_accepted(server: Server, namespace: str) -> None:
    for name, row in TABLE.items():
        for one in all_of({**row, "metadata": {**row["metadata"], "namespace": namespace}}):
            if one["kind"] == "Pod" and one["spec"].get("serviceAccountName"):
                continue  # admission looks for the ServiceAccount of a Pod, not for that of a Job's pods
            path = KINDS[one["kind"]].path(namespace=namespace)
            status, answer = await server("POST", path, one, dryRun="All", fieldValidation="Strict")
            assert status == 201, (name, one["kind"], answer)
            if one["kind"] == "Job":
                pod, kept = (job["spec"]["template"]["spec"] for job in (one, answer))
                assert kept.get("resources") == pod.get("resources"), "pod-level resources stay"
