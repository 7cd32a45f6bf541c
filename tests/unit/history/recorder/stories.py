"""The recorder beside the operator in the in-memory world."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key
from fournos.history.recorder.controller import recorder
from fournos.history.recorder.steps import Journal
from fournos.history.records import Document, Run
from fournos.history.settings import HistorySettings
from fournos.systems.jobs.part import jobs_controller
from fournos.systems.jobs.settings import JobSettings
from tests.unit.history.recorder.fakes import (
    Archives,
    FakeArchive,
    FakeLogs,
    namespaces,
    task_pods,
    tekton_tasks,
)
from tests.unit.systems.jobs.actors import NS, TEMPLATE, Kueue, Resolver, Tekton, environment, submit
from tests.world.harness import Run as Life
from tests.world.harness import Scenario
from tests.world.server import Server, VirtualClock

KEY = Key(NS, "job")
TTL = 1800.0
Down = tuple[float, float]


class Clock(VirtualClock):
    """The clock of whichever server lives now: the controllers are made before it."""

    server: Server | None = None

    def now(self) -> Any:
        return self.server.clock.now() if self.server else super().now()

    def monotonic(self) -> float:
        return self.server.clock.monotonic() if self.server else super().monotonic()


class Story:
    """A scenario of both controllers, with the archive that it writes to."""

    def __init__(
        self,
        *,
        down: Down = (0.0, 0.0),
        tekton: Callable[[], Tekton] = lambda: Tekton(keeps_pods={"job-run-pod"}),
        spec: dict[str, Any] | None = None,
        returns: tuple[Any, ...] = (),
        logs: bool = False,
        **kwargs: Any,
    ) -> None:
        """`returns`: the results of each task."""
        clock = Clock()
        self.archives, self.journal = Archives(), Journal()
        self.logs = FakeLogs(self.archives) if logs else None
        self.settings = HistorySettings()

        def begin(server: Server) -> None:
            clock.server = server
            self.archives.begin(server, down)
            namespaces(server)
            environment(server)
            submit(server, **{"ttl": "30m", **(spec or {})})

        jobs = jobs_controller(JobSettings(namespace=NS, history_enabled=True), TEMPLATE)
        self.scenario = Scenario(
            recorder(self.settings, FOURNOS_JOB, self.archives, self.journal, logs=self.logs),
            begin,
            (partial(tekton_tasks, results=returns), *((task_pods,) if logs else ())),
            cast=(Resolver, Kueue, tekton),
            others=(jobs,),
            born=self.born,
            # A recorder that misses an event archives later: the job may be deleted by then.
            **{
                "end": self.end,
                "end_unseen": lambda server: self.end(server)[1:3],
                "horizon": TTL - 100,
                **kwargs,
            },
        )

    def born(self) -> None:
        self.journal.clear()
        if self.logs is not None:
            self.logs.clear()

    async def run(self, **kwargs: Any) -> Life:
        return await Life(self.scenario, **kwargs).finish()

    @property
    def archive(self) -> FakeArchive:
        return self.archives.current

    @property
    def row(self) -> Run:
        (row,) = self.archive.runs.values()
        return row

    def end(self, server: Server) -> Any:
        """What every run must agree on: the rows, and what is left of the job."""
        archive = self.archives.of(server)
        found = server.find(FOURNOS_JOB, KEY)
        left = None if found is None else (found["status"]["phase"], "archivedAt" in found["status"])
        rows = [
            (run.name, run.phase, run.ending, run.failure, run.attempts, run.target, run.fingerprint)
            for run in archive.runs.values()
        ]
        # The quota is in memory for a moment, until it is written with the next record.
        kept = [sorted(set(documents) - {Document.QUOTA}) for documents in archive.documents.values()]
        results = [sorted(found) for found in archive.results.values()]
        return left, rows, kept, results, len(archive.logs)


def archived_in(server: Server) -> set[str]:
    """The values that status.archivedAt of the job ever had."""
    statuses = (one.object.get("status") or {} for one in server.history if one.resource == FOURNOS_JOB)
    return {status["archivedAt"] for status in statuses if "archivedAt" in status}
