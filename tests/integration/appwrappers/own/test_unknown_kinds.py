"""An unknown kind, installed while the operator runs: its end is observed at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from fournos.engine.api.conditions import condition
from fournos.engine.kube.resource import CUSTOM_RESOURCE_DEFINITION, Key, Resource
from tests.integration.appwrappers.stage import AppWrapperStage, pod_spec

GADGET = Resource("example.com", "v1", "Gadget", "gadgets")
GRACES = ("admission", "warmup", "failure")


@pytest.fixture
async def gadgets(stage: AppWrapperStage) -> AsyncIterator[AppWrapperStage]:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": GADGET.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": free},
        "subresources": {"status": {}},
    }
    spec = {
        "group": GADGET.group,
        "scope": "Namespaced",
        "names": {"kind": GADGET.kind, "plural": GADGET.plural, "singular": "gadget"},
        "versions": [version],
    }
    name = f"{GADGET.plural}.{GADGET.group}"
    await stage.client.create(
        CUSTOM_RESOURCE_DEFINITION,
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": spec,
        },
    )

    async def served() -> bool:
        answer = await stage.client.get(CUSTOM_RESOURCE_DEFINITION, Key("", name))
        return (condition(answer, "Established") or {}).get("status") == "True"

    await stage.until(served, "the definition is not established")
    yield stage
    await stage.client.delete(CUSTOM_RESOURCE_DEFINITION, Key("", name))
    # The next test cannot make it before.
    await stage.gone(CUSTOM_RESOURCE_DEFINITION, name)


async def submit(stage: AppWrapperStage, name: str) -> str:
    template: dict[str, Any] = {
        "apiVersion": GADGET.api_version,
        "kind": GADGET.kind,
        "metadata": {"name": name},
        "spec": {"template": {"spec": pod_spec()}},
    }
    pods = [{"path": "template.spec.template", "replicas": 1}]
    return await stage.submit(
        name,
        annotations={"retryLimit": "0", **{f"{one}GracePeriodDuration": "1h" for one in GRACES}},
        components=[{"template": template, "podSets": pods}],
    )


async def test_its_end_is_observed_by_its_own_event(gadgets: AppWrapperStage) -> None:
    """Long before any grace is over."""
    stage = gadgets
    for name in ("lost", "broken"):
        await submit(stage, name)
        await stage.phase(name, "Running")
    await stage.client.delete(GADGET, Key(stage.namespace, "lost"))
    found = await stage.phase("lost", "Failed")
    assert (condition(found, "Unhealthy") or {})["reason"] == "MissingComponent"
    status = {"type": "Failed", "status": "True", "reason": "Broken", "message": "a cog is missing"}
    await stage.patch(GADGET, "broken", {"status": {"conditions": [status]}}, subresource="status")
    found = await stage.phase("broken", "Failed")
    assert "broken: Broken: a cog is missing" in (condition(found, "Unhealthy") or {})["message"]
    await stage.gone(GADGET, "broken")
