"""An archive in memory, and who plays the rest of a cluster for the recorder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final

from fournos.api.kinds import PIPELINE_RUN, TASK_RUN
from fournos.engine.kube.errors import ServerError
from fournos.engine.kube.resource import NAMESPACE, POD, Key, Obj
from fournos.history.logs.stored import ContainerLog, readable_ids
from fournos.history.records import Document, Ending, Identity, Record, Run
from fournos.history.results.models import Test
from fournos.systems.jobs.names import RESULT_NAME
from tests.unit.systems.jobs.actors import NS
from tests.world.server import Server, VirtualClock


class FakeArchive:
    """Keeps records as the store does: never an older version over a newer one."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.runs: dict[Identity, Run] = {}
        self.documents: dict[Identity, dict[Document, Any]] = {}
        self.results: dict[Identity, dict[str, Test]] = {}
        self.commits: list[Record] = []
        self.compared: list[Identity] = []
        self.suspects = False
        """Whether the results of all jobs are suspected to be a regression."""
        self.server: Server | None = None
        self.logs: set[tuple[str, str]] = set()
        """The containers whose logs are stored."""
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
        self.documents.setdefault(run.identity, {}).update(record.documents)
        self.results.setdefault(run.identity, {}).update({one.slot: one for one in record.results})
        return True

    async def get(self, identity: Identity) -> Run | None:
        self._answer()
        return self.runs.get(identity)

    async def suspected(self, identity: Identity) -> bool:
        self._answer()
        self.compared.append(identity)
        return self.suspects

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

    async def suspected(self, identity: Identity) -> bool:
        return await self.current.suspected(identity)

    async def open_runs(self, cluster: str, kind: str) -> AsyncIterator[Run]:
        async for run in self.current.open_runs(cluster, kind):
            yield run


class FakeLogs:
    """A collector that stores the log of each ended container at once, unless it is `stuck`."""

    def __init__(self, archives: Archives) -> None:
        self._archives = archives
        self.stuck = False
        self.runs: dict[str, dict[tuple[str, str], ContainerLog]] = {}
        self.forgotten: list[str] = []
        self.steps = 0

    def clear(self) -> None:
        """Forgets everything, as a new process has."""
        self.runs.clear()

    def stored(self, uid: str) -> frozenset[tuple[str, str]]:
        return frozenset() if self.stuck else frozenset(self.runs.get(uid, ()))

    def asked(self, uid: str) -> frozenset[tuple[str, str]]:
        return frozenset(self.runs.get(uid, ()))

    def behind(self, pod: Obj) -> bool:
        stored = {one for logs in self.runs.values() for one in logs}
        return any(one not in stored for one in readable_ids(pod))

    def store(self, key: Key, identity: Identity, logs: Iterable[ContainerLog], server: Any) -> None:
        assert identity in self._archives.current.runs, "a log belongs to a record"
        self.steps += 1
        for one in logs:
            self.runs.setdefault(identity.uid, {})[one.id] = one
            if not self.stuck:
                self._archives.current.logs.add(one.id)

    def forget(self, uid: str) -> None:
        self.forgotten.append(uid)


TASK: Final = {"taskRef": {"name": "bench", "kind": "Task"}}


def namespaces(server: Server) -> None:
    for name in ("kube-system", NS):
        server.create(NAMESPACE, {"metadata": {"name": name}})


def tekton_tasks(server: Server, results: Sequence[Any] = ()) -> None:
    """Gives each PipelineRun that has started a TaskRun whose step started with it.

    `results`: the values of the Tekton result fournos-results of the task, and of the Pipeline.
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
        server.create(TASK_RUN, {"metadata": meta, "spec": TASK})
        listed = {
            "pipelineSpec": {"tasks": [{"name": "run", **TASK}]},
            "childReferences": [{"kind": "TaskRun", "name": f"{name}-run", "pipelineTaskName": "run"}],
            "results": [{"name": RESULT_NAME, "value": value} for value in results],
        }
        server.patch(PIPELINE_RUN, Key(NS, name), {"status": listed}, subresource="status")
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
                    "taskSpec": {"steps": [{"name": "main", "image": "bench"}]},
                    "results": [{"name": RESULT_NAME, "value": value} for value in results],
                }
            },
            subresource="status",
        )


def task_pods(server: Server) -> None:
    """Gives each TaskRun whose step has started a pod, whose container ends with the run."""
    for task in server.list(TASK_RUN):
        name = f"{task['metadata']['name']}-pod"
        run = server.find(PIPELINE_RUN, Key(NS, task["metadata"]["labels"]["tekton.dev/pipelineRun"]))
        pod = server.find(POD, Key(NS, name))
        started = (task.get("status") or {}).get("startTime")
        ended = ((run or {}).get("status") or {}).get("completionTime")
        if not started or (pod is None and ended):
            continue
        if pod is None:
            owner = {"kind": "TaskRun", "name": task["metadata"]["name"], "uid": task["metadata"]["uid"]}
            meta = {"name": name, "namespace": NS, "labels": task["metadata"]["labels"]}
            spec = {"containers": [{"name": "step-main"}]}
            server.create(POD, {"metadata": {**meta, "ownerReferences": [owner]}, "spec": spec})
            _state(server, name, {"running": {"startedAt": started}})
            continue
        if ended and not readable_ids(pod):
            _state(server, name, {"terminated": {"startedAt": started, "finishedAt": ended, "exitCode": 0}})


def _state(server: Server, name: str, state: dict[str, Any]) -> None:
    body = {"status": {"containerStatuses": [{"name": "step-main", "state": state}]}}
    server.patch(POD, Key(NS, name), body, subresource="status")
