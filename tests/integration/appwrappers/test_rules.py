"""The CRD on a real API server: published manifests stay as they are, the rules hold in CEL as in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fournos.engine.api.rules import violations
from fournos.systems.appwrappers.rules import RULES
from tests.integration.conftest import Server

ROOT = Path(__file__).parents[3]
SAMPLE = yaml.safe_load((ROOT / "samples" / "appwrapper.yaml").read_text())

pytestmark = pytest.mark.usefixtures("crds")


def path(namespace: str, name: str = "") -> str:
    return f"/apis/workload.codeflare.dev/v1beta2/namespaces/{namespace}/appwrappers/{name}".rstrip("/")


def unqueued(**spec: Any) -> dict[str, Any]:
    """Without a queue Kueue leaves it alone."""
    return {**SAMPLE, "metadata": {"name": "sample"}, "spec": {**SAMPLE["spec"], **spec}}


COMPONENT = SAMPLE["spec"]["components"][0]
INFO = {
    "labels": {"a": "b"},
    "annotations": {"c": "d"},
    "nodeSelector": {"e": "f"},
    "tolerations": [{"key": "t", "operator": "Exists", "tolerationSeconds": 5}],
    "schedulingGates": [{"name": "g"}],
}
NESTED = {"template": {"apiVersion": SAMPLE["apiVersion"], "kind": "AppWrapper", "metadata": {"name": "i"}}}

CHANGES = {
    "components-fixed": {"components": [COMPONENT, COMPONENT]},
    "podsets-fixed": {"components": [{**COMPONENT, "podSets": [{"path": "template", "replicas": 2}]}]},
    "managedby-fixed": {"managedBy": "somebody"},
    "not-nested": {"components": [NESTED]},
}


async def test_a_published_manifest_and_what_kueue_writes_into_it_stay_as_they_are(
    server: Server, namespace: str
) -> None:
    status, made = await server("POST", path(namespace), unqueued())
    assert status == 201, made
    assert made["spec"] == SAMPLE["spec"]
    started = unqueued(suspend=False, components=[{**COMPONENT, "podSetInfos": [INFO]}])
    status, answer = await server.patch(path(namespace, "sample"), {"spec": started["spec"]})
    assert status == 200, answer
    assert answer["spec"] == started["spec"]


@pytest.mark.parametrize("rule", CHANGES)
async def test_a_change_is_refused_with_the_rules_words(server: Server, namespace: str, rule: str) -> None:
    status, made = await server("POST", path(namespace), unqueued())
    assert status == 201, made
    new = unqueued(**CHANGES[rule])
    status, answer = await server.patch(path(namespace, "sample"), {"spec": new["spec"]})
    assert status == 422, answer
    broken = violations(RULES, new, unqueued())
    assert rule in [violation.rule for violation in broken]
    for violation in broken:
        assert violation.message in answer["message"]


async def test_a_name_that_labels_no_pod_is_refused(server: Server, namespace: str) -> None:
    status, answer = await server("POST", path(namespace), {**unqueued(), "metadata": {"name": "n" * 64}})
    assert status == 422
    assert next(rule for rule in RULES if rule.id == "name-length").message in answer["message"]
    assert {*CHANGES, "name-length"} == {rule.id for rule in RULES}
