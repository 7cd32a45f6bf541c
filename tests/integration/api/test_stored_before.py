"""Objects that were stored before the rules existed keep taking writes of status, labels and finalizers."""

from __future__ import annotations

import copy
import dataclasses
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from fournos.api.fournosjob import DEFINITION
from fournos.engine.api.crd import crd
from fournos.systems.jobs.rules import RULES
from tests.integration.conftest import CRDS, Server, install
from tests.rule_cases import CREATIONS, SHARED
from tests.waiting import until

FINALIZER = "fournos.dev/test"


def without_limits(node: Any) -> Any:
    """The schema as an older version had it: types only."""
    if isinstance(node, list):
        return [without_limits(item) for item in node]
    if not isinstance(node, dict):
        return node
    limits = {"x-kubernetes-validations", "maxLength", "maxItems", "maxProperties", "minimum", "maximum"}
    return {key: without_limits(value) for key, value in node.items() if key not in limits}


@pytest.fixture
async def group(server: Server) -> AsyncIterator[str]:
    """A group of the test's own: the real CRD of a shared cluster stays as it is."""
    name = f"t{uuid.uuid4().hex[:8]}.fournos.dev"
    yield name
    await server("DELETE", f"{CRDS}/{DEFINITION.resource.plural}.{name}")


async def test_writes(server: Server, namespace: str, group: str) -> None:
    resource = dataclasses.replace(DEFINITION.resource, group=group)
    definition = dataclasses.replace(DEFINITION, resource=resource)
    strict = crd(definition, rules=RULES)
    old = copy.deepcopy(strict)
    old["spec"]["versions"][0]["schema"] = without_limits(old["spec"]["versions"][0]["schema"])
    await install(server, old)

    base = f"/apis/{group}/v1/namespaces/{namespace}/{DEFINITION.resource.plural}"
    stored = []
    for index, case in enumerate(CREATIONS):
        name = f"old-{index}".ljust(len(case.bad["metadata"]["name"]), "x")
        obj = body(group, name, case.bad.get("spec"))
        await eventually(server, "POST", base, obj, 201)
        stored.append((f"{base}/{name}", case))
    exotic = body(
        group, "exotic", {**SHARED, "owner": "o" * 2000, "hardware": {"gpuType": "a", "gpuCount": 0}}
    )
    await eventually(server, "POST", base, exotic, 201)

    await install(server, strict)
    await eventually(server, "POST", base, body(group, "probe", None), 422, dryRun="All")

    for path, case in [*stored, (f"{base}/exotic", None)]:
        for phase in ("Resolving", "Running", "Failed"):
            await ok(server, f"{path}/status", {"status": {"phase": phase}}, case)
            await ok(server, path, {"metadata": {"labels": {"phase": phase}}}, case)
            await ok(server, path, {"metadata": {"finalizers": [FINALIZER]}}, case)
            await ok(server, path, {"metadata": {"finalizers": None}}, case)
        if case is None or "spec" in case.bad:
            await ok(server, path, {"spec": {"shutdown": "Stop"}}, case)
            await ok(server, path, {"spec": {"ttl": "30m"} if case is None else {"owner": "me"}}, case)
            status, _ = await server.patch(path, {"spec": {"managedBy": "nobody"}})
            assert status == 422, "new faults are still refused"
        # Deleting with a finalizer, then taking it off, is how every job of ours ends.
        await ok(server, path, {"metadata": {"finalizers": [FINALIZER]}}, case)
        status, _ = await server("DELETE", path)
        assert status == 200
        await ok(server, path, {"metadata": {"finalizers": None}}, case)
        status, _ = await server("GET", path)
        assert status == 404


def body(group: str, name: str, spec: Mapping[str, Any] | None) -> dict[str, Any]:
    obj: dict[str, Any] = {"apiVersion": f"{group}/v1", "kind": "FournosJob", "metadata": {"name": name}}
    if spec is not None:
        obj["spec"] = spec
    return obj


async def ok(server: Server, path: str, patch: Mapping[str, Any], case: Any) -> None:
    status, answer = await server.patch(path, patch)
    assert status == 200, (case, patch, answer.get("message"))


async def eventually(
    server: Server, method: str, path: str, obj: Mapping[str, Any], wanted: int, **query: str
) -> None:
    """The API server takes a moment to serve a changed CRD."""
    answers: list[Any] = []

    async def answered() -> bool:
        answers[:] = await server(method, path, obj, **query)
        return bool(answers[0] == wanted)

    await until(answered, lambda: f"{obj}: {answers}", pause=0.1)
