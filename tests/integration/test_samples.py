"""Every object of `samples` and `config` is valid on a real API server: schemas of CRDs, Kueue's webhooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from devcluster import manifests
from fournos.engine.kube.resource import Resource
from tests.integration.conftest import Server

ROOT = Path(__file__).parents[2]
FOLDERS = ("samples", "config/forge/samples", "config/forge/workflows", "config/fournos-*")
OBJECTS = {
    f"{path.relative_to(ROOT)}: {obj['kind']} {obj['metadata'].get('name', '')}": obj
    for folder in FOLDERS
    for path in sorted(ROOT.glob(f"{folder}/**/*.yaml"))
    for obj in manifests.parse(path.read_text().replace("$NAMESPACE", "perf"))
    if "metadata" in obj  # frameworks.yaml and multikueue/configuration.yaml are settings
}

pytestmark = pytest.mark.usefixtures("crds")


def test_the_samples_were_found() -> None:
    assert {"FournosJob", "AppWrapper", "MiniCluster", "PipelineRun", "ClusterQueue"} <= {
        obj["kind"] for obj in OBJECTS.values()
    }


@pytest.mark.parametrize("name", OBJECTS)
async def test_an_object_is_valid(server: Server, namespace: str, name: str) -> None:
    obj: dict[str, Any] = OBJECTS[name]
    resource = await served(server, obj)
    own = {"namespace": namespace} if resource.namespaced else {}
    body = {**obj, "metadata": {**obj["metadata"], **own}}
    path = resource.path(namespace=body["metadata"].get("namespace"))
    status, answer = await server("POST", path, body, dryRun="All", fieldValidation="Strict")
    assert status == 201, answer.get("message")


async def served(server: Server, obj: dict[str, Any]) -> Resource:
    """Returns the resource of the object's kind, as the API server lists it."""
    group, _, version = obj["apiVersion"].rpartition("/")
    _, listed = await server("GET", f"/apis/{group}/{version}" if group else f"/api/{version}")
    (entry,) = (
        entry for entry in listed["resources"] if entry["kind"] == obj["kind"] and "/" not in entry["name"]
    )
    return Resource(group, version, obj["kind"], entry["name"], namespaced=entry["namespaced"])
