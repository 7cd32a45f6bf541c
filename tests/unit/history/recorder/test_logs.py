"""The recorder and the logs: each container is followed from its start; the hand-over waits for its end."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import POD, Key
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.metrics import Metrics
from fournos.history.logs.collector import LogCollector
from fournos.history.logs.containers import containers_of
from fournos.history.logs.limits import LogLimits
from fournos.history.part import PART
from fournos.history.recorder.archive import Forget, Write, executors
from fournos.history.records import Record
from fournos.history.settings import HistorySettings
from fournos.insight.children import Children
from tests.unit.history.recorder.stories import Story, archived_in
from tests.unit.systems.jobs.actors import NS, job
from tests.world.server import VirtualClock


async def test_a_container_is_followed_from_its_start_to_its_end() -> None:
    story = Story(logs=True)
    await story.run()
    assert story.logs is not None
    (one,) = story.logs.followed.values()
    assert (one.pod, one.name, one.task, one.attempt) == (Key(NS, "job-run-pod"), "step-main", "run", 1)
    assert one.ended and one.exit_code == 0
    assert story.archive.logs == {one.id}
    assert len(story.logs.asked) <= 2, "one step at its start, one at its end"


def times(server: Any) -> tuple[datetime, datetime]:
    """The end of the job, and its hand-over."""
    status = job(server)["status"]
    return parse_time(status["phaseTimes"]["finished"]), parse_time(status["archivedAt"])


@pytest.mark.parametrize("seconds", [300, 40])
async def test_the_hand_over_waits_for_logs_as_long_as_the_setting(
    seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seconds != 300:
        monkeypatch.setenv("FOURNOS_HISTORY_LOG_DEADLINE_SEC", str(seconds))
    story = Story(logs=True, spec={"ttl": None})
    assert story.logs is not None
    story.logs.stuck = True
    life = await story.run()
    end, archived = times(life.server)
    assert (archived - end).total_seconds() == pytest.approx(seconds, abs=2)


async def test_it_comes_as_soon_as_the_logs_are_stored() -> None:
    story = Story(logs=True, horizon=30)
    assert story.logs is not None
    story.logs.stuck = True
    life = await story.run()
    assert not archived_in(life.server)
    story.logs.stuck = False
    life.process.wake_all()  # as the collector does
    await life._quiet()
    end, archived = times(life.server)
    assert (archived - end).total_seconds() < 60


async def test_a_job_without_pods_waits_for_nothing() -> None:
    story = Story()
    life = await story.run()
    end, archived = times(life.server)
    assert (archived - end).total_seconds() < 5
    assert life.server.list(POD) == []


@pytest.mark.parametrize("step", [Forget, Write])
async def test_a_job_that_is_gone_is_forgotten_by_the_collector(step: type) -> None:
    story = Story(logs=True)
    await story.run()
    assert story.logs is not None
    run = executors(story.archives, story.journal, VirtualClock(), lambda *_: None, story.logs)
    gone = Forget(story.row.identity) if step is Forget else Write(Record(story.row), b"", gone=True)
    await run[step](gone, None)  # type: ignore[arg-type]
    assert story.logs.forgotten == [story.row.identity.uid]


def test_the_limits_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert HistorySettings().log_limits == LogLimits(200_000_000, 100_000_000)
    monkeypatch.setenv("FOURNOS_HISTORY_LOG_MB", "3")
    monkeypatch.setenv("FOURNOS_HISTORY_LOG_MB_PER_HOUR", "2")
    assert HistorySettings().log_limits == LogLimits(3_000_000, 2_000_000)


def test_the_collector_has_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[LogLimits, int]] = []

    class Collector(LogCollector):
        def __init__(self, rows: Any, blobs: Any, limits: LogLimits, clock: Any, **given: Any) -> None:
            super().__init__(rows, blobs, limits, clock, **given)
            made.append((limits, given["streams"]))

    def tasks() -> set[str]:
        return set(PART.start(HistorySettings(), SystemClock(), Metrics(), lambda name, key: None).background)

    monkeypatch.setattr("fournos.history.logs.collector.LogCollector", Collector)
    assert "history-logs" in tasks()
    monkeypatch.setenv("FOURNOS_HISTORY_LOG_STREAMS", "7")
    assert "history-logs" in tasks()
    assert made == [(HistorySettings().log_limits, 250), (HistorySettings().log_limits, 7)]
    monkeypatch.setenv("FOURNOS_HISTORY_LOG_MB", "0")
    assert "history-logs" not in tasks() and len(made) == 2


def pod(name: str, owner: str, state: dict[str, Any], **labels: str) -> dict[str, Any]:
    names = {"run": "tekton.dev/pipelineRun", "task": "tekton.dev/pipelineTask"}
    return {
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": f"uid-{name}",
            "creationTimestamp": "2030-01-01T00:00:00Z",
            "labels": {names[key]: value for key, value in labels.items()},
            "ownerReferences": [{"uid": owner}],
        },
        "spec": {"containers": [{"name": "step-b"}, {"name": "step-a"}]},
        "status": {
            "containerStatuses": [{"name": "step-a", "state": state}, {"name": "step-b", "state": {}}]
        },
    }


def test_which_containers_are_read_and_whose_they_are() -> None:
    runs = tuple(
        {"metadata": {"name": f"run-{number}", "uid": "", "labels": {"fournos.dev/attempt": str(number)}}}
        for number in (1, 2)
    )
    resolver = {"metadata": {"name": "job-resolve", "uid": "resolve-uid"}}
    terminated = {"terminated": {"exitCode": 2, "finishedAt": "2030-01-01T00:00:09Z"}}
    found = Children(
        resolve_jobs=(resolver,),
        runs=runs,
        pods=(
            pod("p0", "resolve-uid", {"running": {"startedAt": "2030-01-01T00:00:01Z"}}),
            pod("p1", "t1", terminated, run="run-1", task="bench"),
            pod("p2", "t2", {"running": {"startedAt": "2030-01-01T00:00:02Z"}}, run="run-2", task="bench"),
            pod("p3", "t3", {"waiting": {}}, run="run-2", task="later"),
        ),
    )
    rows = [
        (one.pod.name, one.task, one.attempt, one.position, one.exit_code) for one in containers_of(found)
    ]
    assert rows == [("p0", "resolver", 0, 1, None), ("p1", "bench", 1, 1, 2), ("p2", "bench", 2, 1, None)]
