"""Every object of a broad table of MiniClusters, as a real API server takes it."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.kube.kinds import CONFIG_MAP, JOB, POD, SECRET
from fournos.kube.resource import Obj
from fournos.miniclusters import build, curve
from fournos.miniclusters.kinds import SERVICE
from tests.integration.conftest import Server
from tests.unit.miniclusters.objects import SETTINGS
from tests.unit.miniclusters.table import TABLE

KINDS = {resource.kind: resource for resource in (CONFIG_MAP, JOB, POD, SECRET, SERVICE)}
NEEDS_OTHERS = {"Pod"}
"""Admission looks for the ServiceAccount of a Pod, not for that of a Job's pods."""


def all_of(minicluster: dict[str, Any]) -> list[Obj]:
    service = build.headless_service(minicluster, SETTINGS)
    assert not isinstance(service, str)
    certificate = curve.certificate(bytes(32), host="flux-sample-0")
    return [
        build.certificate_secret(minicluster, SETTINGS, certificate=certificate),
        service,
        *build.wanted(minicluster, SETTINGS),
    ]


@pytest.mark.parametrize("name", TABLE)
async def test_it_is_accepted(server: Server, namespace: str, name: str) -> None:
    minicluster = {**TABLE[name], "metadata": {**TABLE[name]["metadata"], "namespace": namespace}}
    for one in all_of(minicluster):
        if name == "pod" and one["kind"] in NEEDS_OTHERS:
            continue
        path = KINDS[one["kind"]].path(namespace=namespace)
        status, answer = await server("POST", path, one, dryRun="All", fieldValidation="Strict")
        assert status == 201, (one["kind"], answer)
        if one["kind"] == "Job":
            kept = answer["spec"]["template"]["spec"]
            assert [c["name"] for c in kept["containers"]]
            assert kept.get("resources") == one["spec"]["template"]["spec"].get("resources")
