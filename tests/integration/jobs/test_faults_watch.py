"""Watches that end, lie or fall silent: what was missed is made up for."""

from __future__ import annotations

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.kube.resource import Key
from tests.faults.rules import Cut, ErrorEvent, Hide, Refuse
from tests.integration.jobs.stage import JobStage

SILENCE = 4.0


async def running(stage: JobStage, name: str = "job", **spec: object) -> str:
    stage.executors.held.add(name)
    await stage.submit(name, **spec)
    await stage.phase(name, "Running")
    return name


def lists(stage: JobStage, resource: str) -> int:
    return sum(call.verb == "list" and call.resource == resource for call, code in stage.proxy.calls)


async def test_watches_answer_410(stage: JobStage) -> None:
    await stage.leading()
    name = await running(stage)
    before = lists(stage, "pipelineruns")
    rules = [
        stage.proxy.on_request(Refuse(410, "Expired"), verb="watch", resource=resource)
        for resource in ("fournosjobs", "workloads", "pipelineruns", "jobs")
    ]
    stage.proxy.cut_watches()
    stage.executors.finish(name)
    await stage.submit("another")
    await stage.good_end({name: "Succeeded", "another": "Succeeded"}, runs=["another", name])
    assert all(rule.hits for rule in rules)
    assert lists(stage, "pipelineruns") > before


@pytest.mark.parametrize("code", [500, 410])
async def test_watches_send_an_error_event(stage: JobStage, code: int) -> None:
    operator = await stage.leading()
    rules = [
        stage.proxy.on_event(ErrorEvent(code), resource=resource)
        for resource in ("fournosjobs", "workloads", "pipelineruns", "jobs")
    ]
    name = await stage.submit()
    await stage.good_end({name: "Succeeded"}, runs=[name])
    assert all(rule.hits for rule in rules)
    assert operator.running


async def test_the_watch_of_pipelineruns_falls_silent(stage: JobStage) -> None:
    await stage.leading(inactivity=SILENCE)
    name = await running(stage)
    silent = stage.proxy.on_event(Hide(), resource="pipelineruns", type="*", times=None)
    stage.executors.finish(name)
    await silent.hit.wait()
    await stage.until(lambda: _is_over(stage, name), "the run does not end")
    silent.cancel()  # the next watch tells; this one has lost the news
    await stage.phase(name, "Succeeded")
    await stage.good_end({name: "Succeeded"}, runs=[name])


def _is_over(stage: JobStage, name: str) -> bool:
    run = stage.executors.find(PIPELINE_RUN, name)
    return bool(run and run["status"].get("completionTime"))


@pytest.mark.parametrize("how", ["relist", "resume"])
async def test_an_object_is_deleted_while_its_watch_is_cut(stage: JobStage, how: str) -> None:
    await stage.leading()
    name = await running(stage, retry={"limit": 1})
    if how == "relist":
        rule = stage.proxy.on_request(Refuse(410, "Expired"), verb="watch", resource="pipelineruns")
        stage.proxy.cut_watches("pipelineruns")
    else:
        rule = stage.proxy.on_event(Cut(), resource="pipelineruns", type="DELETED")
    await stage.client.delete(PIPELINE_RUN, Key(stage.namespace, name))
    await stage.good_end({name: "Succeeded"}, runs=[name, f"{name}-r2"])
    assert rule.hits
    attempts = (await stage.get(FOURNOS_JOB, name))["status"]["attempts"]
    assert [a["outcome"] for a in attempts] == ["Failed", "Succeeded"]
    assert "PipelineRun not found" in attempts[0]["message"]
