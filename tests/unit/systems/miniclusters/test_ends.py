"""How pods end, and what the MiniCluster makes of it: beside Flux, at a smaller size, before its end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import CONFIG_MAP, JOB, POD, Key, key_of, uid_of
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.health import broker_up
from tests.unit.systems.miniclusters.actors import (
    NS,
    Cluster,
    change,
    completed,
    container,
    ends_with,
    get,
    resized,
    set_status,
    status,
    story,
    submit,
)
from tests.world.harness import in_order, run
from tests.world.server import Server

SIDE = {"name": "side", "image": "side:1", "runFlux": False}
MAIN = {"image": "app:1", "command": "hostname"}


# --- Ready ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "up"),
    [
        (status("Running", container("flux"), container("side"), ready=True), True),
        (status("Running", container("flux"), container("side", 0)), True),
        (status("Running", container("flux"), container("side", 4)), True),
        (status("Running", container("flux", ready=False), container("side", 0)), False),
        (status("Running", container("flux"), container("side", ready=False), container("more", 0)), False),
        (status("Running", container("flux"), container("side"), container("more", 0)), True),
        (status("Running", container("flux")), False),
        (status("Failed", container("flux", 0), container("side", 4)), False),
    ],
    ids=[
        "all run",
        "ended",
        "failed",
        "not yet up",
        "another is not ready",
        "another is ready",
        "node lost",
        "over",
    ],
)
def test_a_container_beside_flux_that_has_ended_takes_no_broker_away(found: Any, up: bool) -> None:
    assert broker_up({"metadata": {}, "status": found}, "flux") is up


# --- a failure beside Flux -------------------------------------------------------------------------------


def with_side(server: Server) -> None:
    submit(server, containers=[MAIN, SIDE])


async def test_a_failed_sidecar_is_a_condition_and_no_result() -> None:
    failed = set_status(1, status("Running", container("flux"), container("side", 4)))
    server = (await run(story(failed, setup=with_side))).server
    found = get(server)["status"]
    shown = condition({"status": found}, "JobSidecarFailed") or {}
    assert shown["message"] == "Failed beside Flux: container side of pod flux-1 with exit code 4"
    assert (found["phase"], found["ready"]) == ("Ready", 2)


async def test_a_pod_that_failed_for_a_container_beside_flux_ends_with_the_result_of_flux() -> None:
    """The Job's FailIndex keeps it from running the command again; the Job itself may go on."""
    over = status("Failed", container("flux", 0, message="0"), container("side", 1))
    server = (await run(story(set_status(0, over), setup=with_side))).server
    found = get(server)["status"]
    assert (found["phase"], found["exitCode"]) == ("Finished", 0)
    assert is_true({"status": found}, "JobSidecarFailed")


async def test_a_stopped_pod_is_no_failure_beside_flux() -> None:
    taken = status("Failed", container("flux", names.STOPPED), container("side", 143))
    server = (await run(story(set_status(1, taken), setup=with_side))).server
    assert condition(get(server), "JobSidecarFailed") is None


def nothing(server: Server) -> None:
    pass


async def begun_again(*script: Any, ready: bool = False, **kwargs: Any) -> bool:
    """Whether the MiniCluster has another Job in the end; `ready`: what it must be as well."""
    seen: list[str] = []
    note = in_order(lambda server: seen.append(uid_of(server.list(JOB)[0])), *script[:1])
    server = (await run(story(note, *script[1:], **kwargs))).server
    assert not ready or get(server)["status"]["phase"] == "Ready"
    return [uid_of(job) for job in server.list(JOB)] != seen


async def test_workers_that_ended_well_beside_a_failed_container_begin_again_with_their_lead() -> None:
    """Their pods have failed, but the Job runs their indexes as little again as those that succeeded."""

    def killed(server: Server) -> None:
        at = server.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        ended = container("flux", 0)
        ended["state"]["terminated"]["finishedAt"] = at
        set_status(1, status("Failed", ended, container("side", 1)))(server)
        server.delete(POD, Key(NS, "flux-0"))

    assert await begun_again(killed, setup=with_side, ready=True)


@pytest.mark.parametrize("completed", ["1", "1-2"])
async def test_workers_that_ended_well_and_were_deleted_begin_again_with_their_lead(completed: str) -> None:
    """A drain: the lead stops its workers, then their pods are deleted; the Job never creates them again."""

    def drained(server: Server) -> None:
        (job,) = server.list(JOB)
        server.patch(JOB, key_of(job), {"status": {"completedIndexes": completed}}, subresource="status")
        server.clock.advance(60)
        server.delete(POD, Key(NS, "flux-1"))
        server.delete(POD, Key(NS, "flux-0"))

    assert await begun_again(drained, ready=True)


@pytest.mark.parametrize(
    ("found", "spec"),
    [("0,2", {}), ("2-4", {}), ("1", {"flux": {"completeWorkers": True}})],
    ids=["the lead and none of ours", "beyond the size", "workers that may end"],
)
async def test_indexes_that_are_not_waited_for_begin_nothing_again(found: str, spec: dict[str, Any]) -> None:
    def counted(server: Server) -> None:
        (job,) = server.list(JOB)
        server.patch(JOB, key_of(job), {"status": {"completedIndexes": found}}, subresource="status")
        if spec:
            server.delete(POD, Key(NS, "flux-1"))

    assert not await begun_again(counted, setup=lambda world: submit(world, **spec))


@pytest.mark.parametrize("terminating", [True, False])
async def test_a_stopped_lead_begins_again_before_its_successor_starts(terminating: bool) -> None:
    """Its successor would have to be stopped as it loads the archive. One that still writes is left alone."""
    seen: list[str] = []

    class Delayed(Cluster):
        """The Job controller waits before it makes the next pod."""

        def _kept_up(self, server: Server, job: Any) -> bool:
            server.collect_garbage()
            return uid_of(job) not in seen and super()._kept_up(server, job)

        def _ended(self, server: Server, job: Any) -> bool:
            return uid_of(job) not in seen and super()._ended(server, job)

    def stopped(server: Server) -> None:
        seen.append(uid_of(server.list(JOB)[0]))
        completed(server, at=server.clock.now())
        lead = status("Running", container("flux")) if terminating else _stopped_lead(server)
        set_status(0, lead)(server)
        if terminating:
            meta = {"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}}
            server.patch(POD, Key(NS, "flux-0"), meta)
            server.delete(POD, Key(NS, "flux-0"))

    server = (await run(story(stopped, world=Delayed))).server
    assert ([uid_of(job) for job in server.list(JOB)] == seen) is terminating


def _stopped_lead(server: Server) -> dict[str, Any]:
    ended = container("flux", names.STOPPED)
    ended["state"]["terminated"]["finishedAt"] = format_time(server.clock.now())
    return status("Failed", ended)


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_lead_that_takes_long_to_end_is_not_begun_again(deleted: bool) -> None:
    """Its workers end first; then it may write an archive, or run the user's `post`."""

    def ending(server: Server) -> None:
        server.clock.advance(60)
        completed(server, at=server.clock.now())
        if deleted:
            server.delete(POD, Key(NS, "flux-1"))

    def later(server: Server) -> None:
        server.clock.advance(600)
        change(server, deadlineSeconds=9000)

    assert not await begun_again(ending, later)


@pytest.mark.parametrize(("expected", "again"), [(-1, True), (0, True), (1, False)])
async def test_when_the_broker_of_a_worker_ended_counts_not_its_container(expected: int, again: bool) -> None:
    """Seconds between the begin of the lead and the end of the broker; code of the user's ran on after it."""

    def killed(server: Server) -> None:
        server.clock.advance(60)
        now = server.clock.now()
        completed(server, at=now + timedelta(seconds=30), message=str(int(now.timestamp()) + expected))
        server.delete(POD, Key(NS, "flux-0"))

    assert await begun_again(killed) is again


# --- between Ready and Finished --------------------------------------------------------------------------


async def test_a_lead_that_has_ended_waits_for_nothing_and_is_not_ready() -> None:
    """Its Job has no condition Complete or Failed yet, which takes as long as its workers take to end."""
    late = ends_with(0, late=True)
    server = (await run(story(world=late))).server
    found = get(server)["status"]
    assert (found["phase"], found["message"]) == (
        "Running",
        "The lead broker has ended with exit code 0, its Job is about to end",
    )
    assert not is_true({"status": found}, "JobWaitingForResources")
    assert not is_true({"status": found}, "JobMiniClusterReady")


# --- the quorum --------------------------------------------------------------------------------------------


async def test_a_lead_that_begins_again_waits_for_as_many_brokers_as_there_are() -> None:
    server = (await run(story(resized(1), setup=lambda server: submit(server, size=3)))).server
    config_map = server.get(CONFIG_MAP, Key(NS, "flux-entrypoint"))
    assert config_map["data"][names.QUORUM_KEY] == "1"
    assert (await _quorum(resized(3), resized(2))) == "2"
    assert (await _quorum()) == "", "all of them is what Flux does by itself"


async def _quorum(*script: Any) -> str:
    server = (await run(story(*script, setup=lambda server: submit(server, size=3)))).server
    return str(server.get(CONFIG_MAP, Key(NS, "flux-entrypoint"))["data"][names.QUORUM_KEY])


async def test_a_change_of_the_quorum_starts_nothing_anew() -> None:
    assert not await begun_again(nothing, resized(1), setup=lambda server: submit(server, size=3))
