"""An object of a shape that nobody checks: others are answered, and it is shown with its problem."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB, FOURNOS_SCHEDULE, PIPELINE_RUN
from fournos.client import AsyncClient
from fournos.client.connection import Handles
from fournos.client.jobs import AsyncJob
from fournos.engine.kube.resource import EVENT, POD, Key, Obj
from fournos.insight import fleet, schedules, sheets
from fournos.insight.facts import gather
from fournos.insight.queues import board, entries, gather_queue, ways
from fournos.insight.reasons import explain
from tests.unit.cli.api import Api
from tests.unit.cli.objects import (
    NOW,
    NS,
    ago,
    cluster_queue,
    job,
    local_queue,
    pod,
    run,
    task_run,
    workload,
)
from tests.unit.cli.test_explain import FLAVORS

CONTAINER = {"name": "c", "resources": {"requests": {"fournos/gpu-a100": "1e1000", "cpu": []}}}
TEMPLATES: tuple[Any, ...] = (
    7,
    {"spec": "text"},
    {"spec": {"containers": "text", "nodeSelector": 1, "tolerations": "x", "resourceClaims": 3}},
    {"spec": {"containers": [None, "text", {"resources": []}], "initContainers": {"a": 1}}},
    {"spec": {"containers": [CONTAINER], "overhead": "x"}},
)


def world(*objects: Obj) -> Api:
    return Api(*objects, queues=[local_queue()], cluster_queues=[cluster_queue()], flavors=FLAVORS)


def poisoned(template: Any) -> Obj:
    """A Workload whose template Kueue takes as it is."""
    bad = workload("bad", priority=9)
    bad["spec"]["podSets"] = [{"name": "main", "count": 1, "template": template}]
    return bad


@pytest.mark.parametrize("template", TEMPLATES)
async def test_a_workload(template: Any) -> None:
    good, bad = job("one", "Pending"), job("bad", "Pending")
    api = world(good, bad, poisoned(template), workload("one"))
    shown = entries(await gather_queue(api, NS, "fournos-queue"), NOW)
    assert [one.place for one in shown] == [1, 2] and all(one.reason for one in shown)
    (queues,) = (await ways(api, NS)).values()
    found = await board(api, queues, NOW)
    assert found is not None and found.pending == 2 and found.bars
    read = await fleet.read(api, NS, "hearth", NOW)
    assert {line.name for line in read.waiting} == {"one", "bad"}
    assert explain(await gather(api, bad), NOW).verdict and explain(await gather(api, good), NOW).verdict


async def test_a_job_and_a_cluster_of_the_fleet() -> None:
    good, bad = (
        job("one", "Pending"),
        job("bad", "Pending", spec={"hardware": {"gpuType": "a", "gpuCount": "x"}}),
    )
    api = world(good, bad)
    spoiled = {"hardware": {"gpus": [{"model": "a", "count": "many"}]}}
    for name, status in (("c1", {}), ("c2", spoiled)):
        api.add(
            FOURNOS_CLUSTER, {"metadata": {"name": name, "namespace": "hearth"}, "spec": {}, "status": status}
        )
    read = await fleet.read(api, NS, "hearth", NOW)
    waiting = {line.name: line.reason for line in read.waiting}
    assert "it cannot be read: ValueError" in waiting["bad"] and "cannot be read" not in waiting["one"]
    cards = {card.name: card.problem for card in read.clusters}
    assert cards["c1"] == "" and "it cannot be read: ValueError" in cards["c2"]


@pytest.mark.parametrize(
    "status",
    [
        {"phaseTimes": "text"},
        {"resolved": ["a"]},
        {"resolved": {"hardware": {"gpuType": "a", "gpuCount": []}}},
    ],
    ids=str,
)
async def test_a_job_that_holds_a_cluster(status: dict[str, Any]) -> None:
    good = job("one", "Running", status={"cluster": "c1", "phaseTimes": {"running": ago(minutes=2)}})
    bad = job("bad", "Running", status={"cluster": "c1", **status})
    api = world(good, bad)
    hardware = {"gpus": [{"model": "a100", "shortName": "a100", "count": 8}]}
    meta = {"name": "c1", "namespace": "hearth"}
    api.add(FOURNOS_CLUSTER, {"metadata": meta, "spec": {}, "status": {"hardware": hardware}})
    read = await fleet.read(api, NS, "hearth", NOW)
    assert {line.name for line in read.running} == {"one", "bad"}
    (card,) = [card for card in read.clusters if card.name == "c1"]
    assert card.problem == "" and {line.name for line in card.running} == {"one", "bad"}
    assert {gpus.type: gpus.total for gpus in card.gpus}["a100"] == 8


async def test_two_jobs_whose_namespace_and_name_join_alike() -> None:
    jobs = [job("a-bench", "Pending", namespace="team"), job("bench", "Pending", namespace="team-a")]
    read = await fleet.read(world(*jobs), NS, "hearth", NOW)
    assert {(line.namespace, line.name) for line in read.waiting} == {
        ("team", "a-bench"),
        ("team-a", "bench"),
    }


async def test_an_object_of_another_kind() -> None:
    queue = {"kueue.x-k8s.io/queue-name": "q"}
    api = Api()
    for name, status in (("good", {}), ("bad", {"conditions": "text"})):
        meta = {
            "name": name,
            "namespace": NS,
            "uid": name,
            "labels": queue,
            "creationTimestamp": ago(minutes=1),
        }
        api.add(PIPELINE_RUN, {"kind": "PipelineRun", "metadata": meta, "spec": {}, "status": status})
    lists = {one.kind: {line.name: line for line in one.lines} for one in await sheets.listed(api, NS)}
    assert lists["PipelineRun"].keys() == {"good", "bad"}


async def test_a_schedule() -> None:
    api = Api()
    for name, status in (("good", {}), ("bad", {"missed": {"count": "many"}})):
        meta = {"name": name, "namespace": NS, "uid": name, "creationTimestamp": ago(minutes=1)}
        api.add(FOURNOS_SCHEDULE, {"metadata": meta, "spec": {"schedules": ["@daily"]}, "status": status})
    bad, good = await schedules.read_lines(api, NS, NOW)
    assert good.message == "" and "it cannot be read: ValueError" in bad.message


async def test_an_event_and_a_pod() -> None:
    times = {"running": ago(minutes=2)}
    api = Api(
        job("one", "Running", status={"pipelineRun": "one", "phaseTimes": times}), run(), task_run("prepare")
    )
    stuck = pod("prepare", "step-x", state={})
    stuck["status"] = {
        "phase": "Pending",
        "containerStatuses": [{"name": "x", "state": None}],
        "conditions": None,
    }
    api.add(POD, stuck)
    regarding = {"uid": stuck["metadata"]["uid"]}
    for name, fields in (
        ("a", {"series": None, "note": None}),
        ("b", {"type": None}),
        ("c", {"eventTime": 7}),
    ):
        meta = {"name": name, "namespace": NS}
        api.add(EVENT, {"metadata": meta, "regarding": regarding, "type": "Warning", "note": "n", **fields})
    assert explain(await gather(api, await api.get(FOURNOS_JOB, Key(NS, "one"))), NOW).verdict.startswith(
        "one"
    )


async def test_a_job_of_a_data_frame_and_a_notebook() -> None:
    client = AsyncClient(api=Api(), namespace=NS)  # type: ignore[arg-type]
    good, bad = job("one"), job("bad", status={"phaseTimes": ["text"]})
    jobs = Handles([AsyncJob(client, good), AsyncJob(client, bad)])
    frame = jobs.to_frame()
    assert list(frame["name"]) == ["one", "bad"]
    assert "it cannot be read" in frame["message"][1]
    assert "it cannot be read" in jobs._repr_html_() and "one" in jobs._repr_html_()
