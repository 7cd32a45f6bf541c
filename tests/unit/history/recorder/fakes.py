"""An archive in memory, and who plays the rest of a cluster for the recorder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from fournos.history.records import Document, Ending, Identity, Interval, Record, Run
from fournos.history.results.models import ResultRecord
from fournos.jobs.kinds import PIPELINE_RUN, TASK_RUN
from fournos.kube.errors import ServerError
from fournos.kube.kinds import NAMESPACE
from fournos.kube.resource import Key
from tests.unit.jobs.actors import NS
from tests.world.server import Server, VirtualClock


class FakeArchive:
    """Keeps records as the store does: never an older version over a newer one."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.runs: dict[Identity, Run] = {}
        self.ledgers: dict[Identity, tuple[Interval, ...]] = {}
        self.documents: dict[Identity, dict[Document, Any]] = {}
        self.results: dict[Identity, dict[str, ResultRecord]] = {}
        self.commits: list[Record] = []
        self.server: Server | None = None
        self.down: tuple[float, float] = (0.0, 0.0)
        """Between these seconds of the world it does not answer."""

    def _answer(self) -> None:
        if self.down[0] <= self.clock.monotonic() < self.down[1]:
            raise ServerError("The history's database does not answer")

    async def record(self, record: Record) -> bool:
        self._answer()
        run = record.run
        before = self.runs.get(run.identity)
        if before is not None and before.resource_version > run.resource_version:
            return False
        self.commits.append(record)
        self.runs[run.identity] = run
        self.ledgers[run.identity] = record.waits
        self.documents.setdefault(run.identity, {}).update(record.documents)
        self.results.setdefault(run.identity, {}).update({one.slot: one for one in record.results})
        return True

    async def get(self, identity: Identity) -> Run | None:
        self._answer()
        return self.runs.get(identity)

    async def waits(self, identity: Identity) -> tuple[Interval, ...]:
        self._answer()
        return self.ledgers.get(identity, ())

    async def open_runs(self, cluster: str, kind: str) -> AsyncIterator[Run]:
        self._answer()
        for run in tuple(self.runs.values()):
            if (run.identity.cluster, run.kind, run.ending) == (cluster, kind, Ending.OPEN):
                yield run


class Archives:
    """The archive of whichever run of a scenario is under way; each has its own."""

    def __init__(self) -> None:
        self.current: FakeArchive
        self._of: dict[int, FakeArchive] = {}

    def begin(self, server: Server, down: tuple[float, float]) -> None:
        self.current = self._of[id(server)] = FakeArchive(server.clock)
        self.current.down = down
        self.current.server = server  # kept alive: another server must not get its id

    def of(self, server: Server) -> FakeArchive:
        return self._of[id(server)]

    async def record(self, record: Record) -> bool:
        return await self.current.record(record)

    async def get(self, identity: Identity) -> Run | None:
        return await self.current.get(identity)

    async def waits(self, identity: Identity) -> tuple[Interval, ...]:
        return await self.current.waits(identity)

    async def open_runs(self, cluster: str, kind: str) -> AsyncIterator[Run]:
        async for run in self.current.open_runs(cluster, kind):
            yield run


def namespaces(server: Server) -> None:
    for name in ("kube-system", NS):
        server.create(NAMESPACE, {"metadata": {"name": name}})


def tekton_tasks(server: Server, results: Sequence[Any] = ()) -> None:
    """Gives each PipelineRun that has started a TaskRun whose step started with it.

    `results`: the values of the Tekton result fournos-results of the task.
    """
    for run in server.list(PIPELINE_RUN):
        name, status = run["metadata"]["name"], run.get("status") or {}
        if not status.get("startTime") or server.find(TASK_RUN, Key(NS, f"{name}-run")):
            continue
        labels = {
            **run["metadata"]["labels"],
            "tekton.dev/pipelineRun": name,
            "tekton.dev/pipelineTask": "run",
        }
        owner = {"kind": "PipelineRun", "name": name, "uid": run["metadata"]["uid"], "controller": True}
        meta = {"name": f"{name}-run", "namespace": NS, "labels": labels, "ownerReferences": [owner]}
        server.create(TASK_RUN, {"metadata": meta})
        step = {
            "name": "main",
            "container": "step-main",
            "imageID": "registry.test/bench@sha256:1",
            "running": {"startedAt": status["startTime"]},
        }
        server.patch(
            TASK_RUN,
            Key(NS, f"{name}-run"),
            {
                "status": {
                    "startTime": status["startTime"],
                    "steps": [step],
                    "results": [{"name": "fournos-results", "value": value} for value in results],
                }
            },
            subresource="status",
        )
