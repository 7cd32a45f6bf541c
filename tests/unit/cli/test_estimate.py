"""fournos estimate, and the estimate in fournos explain."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.history.estimates import Typical
from fournos.history.records import body
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NOW, NS, cluster_queue, job, workload
from tests.unit.cli.test_explain import pending, world
from tests.unit.cli.test_queue import controlled

PATH = f"/apis/history.fournos.dev/v1/namespaces/{NS}/estimates"
ONE = Typical("one", NS, "uid-one", None, 2400.0, 12)


def waiting(*jobs: Typical) -> Api:
    found = world(pending(), workload("one"))
    found.stored = {PATH: body(list(jobs), list[Typical]), f"{PATH}/uid-one": body(ONE, Typical)}
    return found


def test_the_jobs_of_a_namespace() -> None:
    running = Typical("run", NS, "u3", NOW - timedelta(minutes=25), 2400.0, 12)
    result = Program(waiting(ONE, running))("estimate")
    assert result.exit_code == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert first == "one waits, its kind takes 40m (median of 12)."
    assert second == "run has run 25m, its kind takes 40m (median of 12)."


def test_one_job() -> None:
    assert Program(waiting())("estimate", "one").stdout.startswith(
        "one has place 1 in its queue, its kind takes 40m"
    )
    (data,) = json.loads(Program(waiting())("estimate", "one", "-o", "json").stdout)
    assert (data["seconds"], data["runs"]) == (2400.0, 12)


@pytest.mark.parametrize("words", [("estimate", "one"), ("explain", "one")])
def test_no_start_is_promised_while_the_queue_is_stopped(words: tuple[str, ...]) -> None:
    stopped = cluster_queue(spec={"stopPolicy": "Hold"})
    found = world(pending(), workload("one"), queue=stopped)
    found.stored = {PATH: body([ONE], list[Typical]), f"{PATH}/uid-one": body(ONE, Typical)}
    text = Program(found)(*words).stdout
    assert "one waits: ClusterQueue fournos-queue is stopped (stopPolicy Hold), its kind takes 40m" in text
    assert "it starts in about" not in text


def test_the_end_of_a_lock_is_said() -> None:
    used = cluster_queue({"cluster-1": {"fournos/cluster-slot": (100, 100)}})
    asks = {"fournos/cluster-slot": "1"}
    found = controlled(
        world(pending(cluster="cluster-1"), workload("one", asks=asks, cluster="cluster-1"), queue=used)
    )
    ends = (NOW + timedelta(hours=2)).isoformat()
    locked = {"metadata": {"name": "cluster-1", "namespace": "hearth"}, "status": {"lockExpiresAt": ends}}
    found.add(FOURNOS_CLUSTER, locked)
    found.stored = {PATH: body([ONE], list[Typical]), f"{PATH}/uid-one": body(ONE, Typical)}
    for words in (("estimate", "one"), ("estimate",)):
        text = Program(found)(*words).stdout
        assert text.startswith("one waits: cluster-1 is locked for 2h more, its kind takes 40m"), text
    assert "cluster-1 is locked for 2h more" in Program(found, env={"COLUMNS": "140"})("queue").stdout
    assert f"the lock of cluster-1 ends at {ends}" in Program(found)("explain", "one").stdout


def test_no_job_waits_and_no_history() -> None:
    assert "No job waits" in Program(waiting())("estimate").stderr
    result = Program(Api(job("one")))("estimate")
    assert result.exit_code != 0
    assert "the cluster has no history" in result.stderr


def test_explain_has_the_estimate() -> None:
    result = Program(waiting())("explain", "one")
    assert "Estimate\n  one has place 1 in its queue, its kind takes 40m" in result.stdout
    shown = json.loads(Program(waiting())("explain", "one", "-o", "json").stdout)
    assert shown["estimate"]["runs"] == 12


@pytest.mark.parametrize("answer", [b"{", b"{}"])
def test_explain_does_without_a_history_that_has_none(answer: bytes) -> None:
    plain = Program(world(pending(), workload("one")))("explain", "one")
    found = waiting()
    found.stored[f"{PATH}/uid-one"] = answer
    strange = Program(found)("explain", "one")
    assert (plain.exit_code, plain.stdout) == (strange.exit_code, strange.stdout) == (0, plain.stdout)
    assert "Estimate" not in plain.stdout


def test_explain_does_not_wait_for_a_history_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = waiting()

    async def hang(*_: Any, **__: Any) -> bytes:
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr(found, "raw", hang)
    monkeypatch.setattr("fournos.cli.stored._ESTIMATE", 0.01)
    result = Program(found)("explain", "one")
    assert result.exit_code == 0
    assert "Estimate" not in result.stdout


def test_an_ended_job_is_explained_without_an_estimate() -> None:
    found = Api(job("one", "Failed"))
    Program(found)("explain", "one")
    assert found.raw_requests == []
