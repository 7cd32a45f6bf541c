"""Names that nothing has: which are refused, and what is meant instead."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import PIPELINE
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR
from fournos.insight.manifests import unknown_names
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NS, cluster_queue

SPEC = {
    "cluster": "cluster-1",
    "pipeline": "fournos-full",
    "hardware": {"gpuType": "a100", "gpuCount": 1},
}


@pytest.fixture
def api() -> Api:
    found = Api(
        cluster_queues=[cluster_queue()],
        flavors=[{"metadata": {"name": "cluster-1"}}, {"metadata": {"name": "cluster-2"}}],
    )
    for name in ("fournos-full", "fournos-run-only"):
        found.add(PIPELINE, {"metadata": {"name": name, "namespace": NS}})
    return found


def job(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "one", "namespace": NS}, "spec": {**SPEC, **spec}}


async def said(api: Api, **spec: Any) -> list[str]:
    return [str(each) for each in await unknown_names(api, job(**spec))]


async def test_what_exists_is_not_named(api: Api) -> None:
    assert await said(api) == []
    assert await said(api, cluster=None, pipeline=None, hardware=None) == []


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"cluster": "cluster1"}, "spec.cluster: there is no cluster cluster1: is cluster-1 meant?"),
        ({"cluster": "east"}, "spec.cluster: there is no cluster east: there are cluster-1, cluster-2"),
        (
            {"pipeline": "fournos-ful"},
            "spec.pipeline: there is no Pipeline fournos-ful: is fournos-full meant?",
        ),
        (
            {"hardware": {"gpuType": "A100"}},
            "spec.hardware.gpuType: there is no GPU type A100: is a100 meant?",
        ),
        (
            {"hardware": {"gpuType": "a100", "alternatives": [{"gpuType": "h100"}]}},
            "spec.hardware.alternatives[0].gpuType: there is no GPU type h100: is a100 meant?",
        ),
    ],
)
async def test_what_does_not_exist_is_named_with_a_near_name(api: Api, spec: Any, text: str) -> None:
    assert await said(api, **spec) == [text]


async def test_more_gpus_than_any_cluster_has_are_refused(api: Api) -> None:
    text = "spec.hardware.gpuCount: no cluster has more than 8 of a100"
    assert await said(api, hardware={"gpuType": "a100", "gpuCount": 8}) == []
    assert await said(api, hardware={"gpuType": "a100", "gpuCount": 16}) == [text]
    wanted = {"gpuType": "a100", "gpuCount": 1, "alternatives": [{"gpuType": "a100", "gpuCount": 9}]}
    assert await said(api, hardware=wanted) == [text.replace("hardware", "hardware.alternatives[0]")]
    api.add(CLUSTER_QUEUE, cluster_queue(spec={"cohortName": "all"}))
    assert await said(api, hardware={"gpuType": "a100", "gpuCount": 16}) == [], "it may be borrowed"


async def test_several_at_once(api: Api) -> None:
    assert len(await said(api, cluster="x", pipeline="y", hardware={"gpuType": "z"})) == 3


async def test_what_a_job_does_not_use_is_not_looked_at(api: Api) -> None:
    assert await said(api, clusterless=True, cluster="x", hardware={"gpuType": "z"}) == []
    assert await said(api, lockOnly=True, pipeline="y") == []


@pytest.mark.parametrize("kind", [CLUSTER_QUEUE, RESOURCE_FLAVOR, PIPELINE])
async def test_what_may_not_be_read_refuses_nothing(api: Api, kind: Any) -> None:
    api.fails["list", kind] = ForbiddenError("no", status=403)
    wrong = {"cluster": "x", "pipeline": "y", "hardware": {"gpuType": "z"}}
    assert len(await said(api, **wrong)) == 2


async def test_where_there_is_nothing_of_a_kind_nothing_is_refused() -> None:
    assert await said(Api(), cluster="x", pipeline="y", hardware={"gpuType": "z"}) == []
