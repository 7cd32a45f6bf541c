"""The recorder and the logs: each is stored when its container has ended; the hand-over waits for that."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import POD
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.metrics import Metrics
from fournos.history.logs.collector import LogCollector
from fournos.history.part import PART
from fournos.history.recorder.steps import Forget, Write, executors
from fournos.history.records import Record
from fournos.history.settings import HistorySettings
from tests.unit.history.recorder.stories import KEY, Story, archived_in
from tests.unit.systems.jobs.actors import job


async def test_the_log_of_a_container_is_stored_once_when_it_has_ended() -> None:
    story = Story(logs=True)
    await story.run()
    assert story.logs is not None
    (one,) = story.logs.runs[story.row.identity.uid].values()
    assert (one.pod, one.container, one.task, one.attempt) == ("job-run-pod", "step-main", "run", 1)
    assert one.ended_at is not None and one.exit_code == 0
    assert story.archive.logs == {one.id}
    assert story.logs.steps == 1


def times(server: Any) -> tuple[datetime, datetime]:
    """The end of the job, and its hand-over."""
    status = job(server)["status"]
    return parse_time(status["phaseTimes"]["finished"]), parse_time(status["archivedAt"])


async def test_the_hand_over_waits_five_minutes_for_logs() -> None:
    story = Story(logs=True, spec={"ttl": None})
    assert story.logs is not None
    story.logs.stuck = True
    life = await story.run()
    end, archived = times(life.server)
    assert (archived - end).total_seconds() == pytest.approx(300, abs=2)


@pytest.mark.parametrize("end", ["9999-12-31T23:59:59Z", "2500-01-01T00:00:00Z"])
async def test_an_end_in_the_far_future_is_not_waited_for(end: str) -> None:
    story = Story(logs=True, spec={"ttl": None}, horizon=30)
    assert story.logs is not None
    story.logs.stuck = True
    life = await story.run()
    assert not archived_in(life.server)
    ended = {"status": {"phaseTimes": {"finished": end}}}
    life.server.patch(FOURNOS_JOB, KEY, ended, subresource="status")
    await life._quiet()
    assert archived_in(life.server)


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
    run = executors(story.archives, story.journal, lambda *_: None, story.logs)
    gone = Forget(story.row.identity) if step is Forget else Write(Record(story.row), b"", gone=True)
    await run[step](gone, None)  # type: ignore[arg-type]
    assert story.logs.forgotten == [story.row.identity.uid]


def test_the_collector_has_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Collector(LogCollector):
        def __init__(self, rows: Any, blobs: Any, most: int, **given: Any) -> None:
            super().__init__(rows, blobs, most, **given)
            made.append(most)

    def tasks() -> set[str]:
        return set(PART.start(HistorySettings(), SystemClock(), Metrics(), lambda name, key: None).background)

    monkeypatch.setattr("fournos.history.logs.collector.LogCollector", Collector)
    assert "history-logs" in tasks()
    monkeypatch.setenv("FOURNOS_HISTORY_LOG_MB", "3")
    assert "history-logs" in tasks()
    assert made == [100_000_000, 3_000_000]
    monkeypatch.setenv("FOURNOS_HISTORY_LOG_MB", "0")
    assert "history-logs" not in tasks() and len(made) == 2
