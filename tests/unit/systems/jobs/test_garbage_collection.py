"""Garbage collection: what lost its owner goes, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.kube.resource import JOB, Key, Resource, uid_of
from fournos.engine.queueing.workload import WORKLOAD
from fournos.systems.jobs.part import orphans_controller
from tests.unit.systems.jobs.actors import NS, SETTINGS, submit
from tests.world.harness import Scenario, run, run_to_quiescence
from tests.world.process import Process
from tests.world.server import Server, VirtualClock

LABELS = {"app.kubernetes.io/managed-by": "fournos", "fournos.dev/job-name": "gone"}
CHILDREN = (WORKLOAD, PIPELINE_RUN, JOB)


def child(server: Server, resource: Resource, **metadata: Any) -> None:
    meta = {"name": "gone", "namespace": NS, "labels": LABELS, **metadata}
    server.create(resource, {"metadata": meta, "spec": {}})


async def left(setup: Callable[[Server], Any], *, after: float = 120.0) -> Server:
    def begin(server: Server) -> None:
        setup(server)
        server.clock.advance(after)

    return (await run(Scenario(orphans_controller(SETTINGS), begin))).server


@pytest.mark.parametrize("resource", CHILDREN)
async def test_what_lost_its_owner_is_deleted(resource: Resource) -> None:
    server = await left(lambda s: child(s, resource))
    assert server.list(resource) == []


def mislabelled(server: Server) -> None:
    submit(server, "other")
    owner = {
        "apiVersion": FOURNOS_JOB.api_version,
        "kind": FOURNOS_JOB.kind,
        "name": "other",
        "uid": uid_of(server.get(FOURNOS_JOB, Key(NS, "other"))),
        "controller": True,
    }
    child(server, WORKLOAD, ownerReferences=[owner])


SPARED: dict[str, Callable[[Server], Any]] = {
    "its job exists": lambda s: (submit(s, "gone"), child(s, WORKLOAD)),
    "it is nobody's that we know": lambda s: child(s, WORKLOAD, labels={"fournos.dev/job-name": "gone"}),
    "it names no job": lambda s: child(s, WORKLOAD, labels={"app.kubernetes.io/managed-by": "fournos"}),
    "it belongs to another job than its label says": mislabelled,
}


@pytest.mark.parametrize("why", SPARED)
async def test_the_rest_is_spared(why: str) -> None:
    server = await left(SPARED[why])
    assert len(server.list(WORKLOAD)) == 1


async def test_what_was_made_a_moment_ago_is_spared_at_first_and_gone_within_half_a_minute() -> None:
    server = Server(VirtualClock())
    child(server, WORKLOAD)
    process = Process(server, orphans_controller(SETTINGS))
    await run_to_quiescence(process, horizon=10.0)
    assert len(server.list(WORKLOAD)) == 1
    await run_to_quiescence(process, horizon=20.0)
    assert server.list(WORKLOAD) == []


async def test_what_is_collected_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await left(lambda s: [child(s, resource) for resource in CHILDREN])
    reported = [
        record.getMessage() for record in caplog.records if record.name == "fournos.engine.runtime.act"
    ]
    why = "garbage: FournosJob gone does not exist"
    assert reported == [f"deleted {resource.kind} {NS}/gone: {why}" for resource in CHILDREN]


async def test_the_api_server_s_word_counts_not_the_cache_s() -> None:
    """The job is newer than the cache; and while live reads are forbidden, nothing is deleted."""
    server = Server(VirtualClock())
    child(server, WORKLOAD)
    server.clock.advance(120.0)
    submit(server, "gone")
    process = Process(server, orphans_controller(SETTINGS), lag=1)
    await process.step()
    assert len(server.list(WORKLOAD)) == 1


async def test_nothing_is_deleted_while_the_crd_is_away() -> None:
    def setup(server: Server) -> None:
        child(server, WORKLOAD)
        server.unserved.add(FOURNOS_JOB)

    assert len((await left(setup)).list(WORKLOAD)) == 1
