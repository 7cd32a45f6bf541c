"""Each setting of the recorder is seen in what it does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.values import creation_time
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.metrics import Metrics
from fournos.history.alerts.announce import Announcer, Events, Webhook
from fournos.history.alerts.news import NewsContext, due
from fournos.history.part import PART
from fournos.history.recorder.database import DatabaseArchive
from fournos.history.recorder.observe import watches
from fournos.history.records import Ending, Identity, Record, Run
from fournos.history.settings import HistorySettings
from fournos.history.store import HistoryStore
from tests.unit.history.alerts.test_news import DROP, NOW, judged, series
from tests.unit.history.recorder.stories import Story
from tests.unit.systems.jobs.actors import Tekton, job
from tests.world.connection import Connection
from tests.world.server import Server, VirtualClock


def test_the_namespace_whose_objects_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def namespaces() -> set[str]:
        return {watch.namespace for watch in watches(HistorySettings(), FOURNOS_JOB) if watch.namespace}

    assert namespaces() == set()
    monkeypatch.setenv("FOURNOS_HISTORY_JOBS_NAMESPACE", "bench")
    assert namespaces() == {"bench"}


def test_a_controller_for_each_of_the_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    def controllers() -> list[str]:
        started = PART.start(HistorySettings(), SystemClock(), Metrics(), lambda name, key: None)
        return [one.name for one in started.controllers]

    assert controllers() == ["history-fournosjobs", "history-appwrappers", "history-miniclusters"]
    monkeypatch.setenv("FOURNOS_HISTORY_KINDS", "FournosJob, PipelineRun.v1.tekton.dev")
    assert controllers() == ["history-fournosjobs", "history-pipelineruns"]
    for wrong in ("", "Pod", "FournosJob,x"):
        monkeypatch.setenv("FOURNOS_HISTORY_KINDS", wrong)
        with pytest.raises(ValidationError):
            HistorySettings()


def a_run(uid: str = "u1") -> Run:
    now = VirtualClock().now()
    return Run(Identity("c", "bench", uid), "AppWrapper", "w", "n", now, now, 7)


async def test_changes_within_the_interval_are_written_together() -> None:
    story = Story(tekton=lambda: Tekton(endless={"job"}))
    life = await story.run()
    first, *others = story.archive.commits
    assert first.run.ending is Ending.OPEN
    assert len(others) == 1, "the phases of the first seconds are one record"
    assert story.row.phase == "Running"
    assert story.row.submitted_at == creation_time(job(life.server))


async def test_the_replica_that_records_deletes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FOURNOS_HISTORY_DIRECTORY", str(tmp_path))
    deleted = list[HistoryStore]()

    async def keep_within(store: HistoryStore, *_: object, cluster: Callable[[], str]) -> None:
        assert await store.get(a_run().identity) == a_run()
        assert cluster() == "", "each cluster deletes its own runs, none while it does not know its UID"
        deleted.append(store)

    archive = DatabaseArchive(HistorySettings().database_url)
    monkeypatch.setattr("fournos.history.recorder.database.DatabaseArchive", lambda url, most: archive)
    monkeypatch.setattr("fournos.history.store.retention.keep_within", keep_within)
    started = PART.start(HistorySettings(), SystemClock(), Metrics(), lambda name, key: None)
    task = asyncio.create_task(started.background["history-retention"]())  # type: ignore[arg-type]
    await archive.record(Record(a_run()))
    assert not deleted, "a standby deletes nothing"
    assert [one async for one in archive.open_runs("c", "AppWrapper")] == [a_run()]
    await task
    assert len(deleted) == 1
    await archive.close()


def webhook(monkeypatch: pytest.MonkeyPatch) -> Webhook | None:
    """Starts the part, and returns the webhook of its announcements."""
    found: list[Webhook | None] = []
    original = Announcer.__init__

    def noted(self: Announcer, clock: Any, events: Events, webhook: Webhook | None, *rest: Any) -> None:
        found.append(webhook)
        original(self, clock, events, webhook, *rest)

    monkeypatch.setattr(Announcer, "__init__", noted)
    started = PART.start(HistorySettings(), SystemClock(), Metrics(), lambda name, key: None)
    assert "history-changes" in started.serve(Connection(Server()))  # type: ignore[arg-type]
    return found[0]


@pytest.fixture
def posts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []

    async def post(self: Webhook, url: object, content: bytes) -> None:
        found.append((str(url), content))

    monkeypatch.setattr(Webhook, "_post", post)
    monkeypatch.setenv("FOURNOS_HISTORY_DIRECTORY", str(tmp_path))
    (tmp_path / "url").write_text("https://hooks.example.com/services/x\n")
    return found


async def test_confirmed_changes_go_to_the_webhook(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, posts: list[tuple[str, bytes]]
) -> None:
    assert webhook(monkeypatch) is None
    monkeypatch.setenv("FOURNOS_HISTORY_WEBHOOK_URL_FILE", str(tmp_path / "url"))
    made = webhook(monkeypatch)
    assert made is not None and made.there
    (news,) = due(judged(series(*DROP)), [], NOW)
    await made.send(news, NewsContext(None))
    ((url, content),) = posts
    assert url == "https://hooks.example.com/services/x" and b"Regression confirmed" in content
