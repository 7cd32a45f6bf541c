"""The CRD on a real API server: published manifests stay as they are, the rules hold in CEL as in Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fournos.engine.api import rules
from fournos.systems.miniclusters.rules import RULES
from tests.integration.conftest import Server
from tests.integration.refusals import refused
from tests.minicluster_cases import CHANGES, CREATIONS, FREE, Change, minicluster, of
from tests.rule_cases import merged
from tests.unit.systems.miniclusters.objects import EVERYTHING, SPELT_OTHERWISE

pytestmark = pytest.mark.usefixtures("crds")


def path(namespace: str, name: str = "", below: str = "") -> str:
    base = f"/apis/flux-framework.org/v1alpha2/namespaces/{namespace}/miniclusters"
    return "/".join(filter(None, (base, name, below)))


def violations(new: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> set[str]:
    return {violation.rule for violation in rules.violations(RULES, new, old)}


async def test_creations(server: Server, namespace: str) -> None:
    for case in CREATIONS:
        status, answer = await server("POST", path(namespace), case.bad, dryRun="All")
        assert status == 422, case
        assert refused(RULES, answer) == violations(case.bad), case
        assert case.rule in refused(RULES, answer), case
        status, answer = await server("POST", path(namespace), case.good, dryRun="All")
        assert status == 201, (case, answer)


async def store(server: Server, namespace: str, spec: Mapping[str, Any], maximum: int) -> dict[str, Any]:
    status, made = await server("POST", path(namespace), minicluster(spec))
    assert status == 201, made
    if maximum:
        body = {"status": {"maximumSize": maximum}}
        status, made = await server.patch(path(namespace, "flux-sample", "status"), body)
        assert status == 200, made
    return made


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.rule)
async def test_changes(server: Server, namespace: str, change: Change) -> None:
    old = await store(server, namespace, change.spec, change.maximum)
    status, answer = await server.patch(path(namespace, "flux-sample"), {"spec": change.patch})
    assert status == 422, answer
    assert refused(RULES, answer) == violations(merged(old, {"spec": change.patch}), old)
    assert change.rule in refused(RULES, answer)


@pytest.mark.parametrize(("spec", "patch"), FREE)
async def test_changes_that_pass(server: Server, namespace: str, spec: Any, patch: Any) -> None:
    await store(server, namespace, spec, 8)
    status, answer = await server.patch(path(namespace, "flux-sample"), {"spec": patch})
    assert status == 200, answer


@pytest.mark.parametrize("spec", [EVERYTHING, SPELT_OTHERWISE], ids=["all", "other spellings"])
async def test_nothing_of_a_manifest_is_pruned(server: Server, namespace: str, spec: dict[str, Any]) -> None:
    status, made = await server("POST", path(namespace), minicluster(spec), fieldValidation="Strict")
    assert status == 201, made
    assert made["spec"] == spec


async def test_it_is_scaled_by_its_subresource(server: Server, namespace: str) -> None:
    await store(server, namespace, of(maxSize=6), 6)
    await server.patch(
        path(namespace, "flux-sample", "status"),
        {"status": {"size": 4, "selector": "hpa-selector=flux-sample"}},
    )
    scale = path(namespace, "flux-sample", "scale")
    status, answer = await server("GET", scale)
    assert (status, answer["spec"], answer["status"]) == (
        200,
        {"replicas": 4},
        {"replicas": 4, "selector": "hpa-selector=flux-sample"},
    )
    status, answer = await server.patch(scale, {"spec": {"replicas": 6}})
    assert status == 200, answer
    for wrong in (0, 7):
        status, answer = await server.patch(scale, {"spec": {"replicas": wrong}})
        assert status == 422, answer
