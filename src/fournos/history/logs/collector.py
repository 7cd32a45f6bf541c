"""The streams of all runs, in the process that records."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import Key, Obj, uid_of
from fournos.engine.kube.store import Store
from fournos.engine.runtime.clock import Clock
from fournos.history.blobs import Blobs
from fournos.history.logs.containers import states
from fournos.history.logs.followed import FollowedLog
from fournos.history.logs.limits import LogBudget, LogLimits, Memory
from fournos.history.logs.models import StartedContainer
from fournos.history.logs.slots import Slots
from fournos.history.logs.stream import ContainerStream, StreamContext
from fournos.history.logs.writer import RunGoneError
from fournos.history.records import Identity
from fournos.history.store.errors import StoreError

if TYPE_CHECKING:
    from fournos.history.store.logs import LogRows

log = logging.getLogger(__name__)

FLUSH: Final = 10.0
"""Seconds after which a line is stored; a reader of the same process has it stored at once."""
_TICK: Final = 2.0
MEMORY: Final = 8_000_000
"""Bytes of all lines that are not stored yet."""


@dataclass(slots=True)
class _Run:
    key: Key
    budget: LogBudget
    streams: dict[tuple[str, str], ContainerStream] = field(default_factory=dict)
    gone: bool = False
    """True if the object does not exist any more."""

    @property
    def done(self) -> bool:
        return all(stream.done for stream in self.streams.values())


class LogCollector:
    """Follows the logs of all runs.  `run` keeps it at work."""

    def __init__(
        self,
        rows: Callable[[], Awaitable[LogRows]],
        blobs: Blobs,
        limits: LogLimits,
        clock: Clock,
        *,
        streams: int,
        finished: Callable[[Key], None] = lambda key: None,
    ) -> None:
        """`streams`: how many logs of running containers are read at once.

        `finished` is called with the key of a run when the last of its streams has ended.
        """
        self._limits = limits
        self._finished = finished
        self._slots = Slots(streams)
        self._pods: Store | None = None
        self._shared = StreamContext(rows, blobs, self._slots, Memory(MEMORY), clock, self._present)
        self._clock = clock
        self._runs: dict[str, _Run] = {}
        self._reported: dict[str, dict[str, bool]] = {}
        """Pod UID → container → whether its end was reported."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def streams(self) -> int:
        """The number of logs that are being read."""
        return self._slots.used

    @property
    def waiting_bytes(self) -> int:
        """The bytes of all lines that are not stored yet."""
        return self._shared.memory.used

    # --- what the recorder asks ---

    def watch(self, pods: Store) -> None:
        """Takes the cache of the pods, which shows whether a pod still exists."""
        self._pods = pods

    def known(self, uid: str) -> Mapping[tuple[str, str], FollowedLog]:
        """Returns the containers of a run that are followed, by `StartedContainer.id`."""
        run = self._runs.get(uid)
        if run is None:
            return {}
        return {id_: FollowedLog(stream.container.ended, stream.done) for id_, stream in run.streams.items()}

    def behind(self, pod: Obj) -> bool:
        """True if the pod shows a start or an end that was not reported by `follow`."""
        reported = self._reported.get(uid_of(pod), {})
        return any(reported.get(name) not in (ended, True) for name, _, ended in states(pod))

    def follow(
        self, key: Key, identity: Identity, containers: Iterable[StartedContainer], server: Client
    ) -> None:
        """Follows these containers of a run; takes the newest state of those that are followed already."""
        run = self._runs.setdefault(identity.uid, _Run(key, LogBudget(self._limits)))
        for container in containers:
            self._reported.setdefault(container.pod_uid, {})[container.name] = container.ended
            stream = run.streams.get(container.id)
            if stream is not None:
                stream.update(container)
                continue
            stream = ContainerStream(container, identity, self._shared, server, run.budget)
            run.streams[container.id] = stream
            task = asyncio.create_task(self._work(run, identity, stream))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def forget(self, uid: str) -> None:
        """Drops a run whose object is gone, as soon as its streams have ended."""
        run = self._runs.get(uid)
        if run is not None:
            run.gone = True
            self._drop(uid, run)

    # --- tasks ---

    async def _work(self, run: _Run, identity: Identity, stream: ContainerStream) -> None:
        try:
            await stream.run()
        except Exception:
            log.exception("the log of %s is not stored", stream.container.pod)
        if run.done:
            self._finished(run.key)
            self._drop(identity.uid, run)

    def _drop(self, uid: str, run: _Run) -> None:
        if run.gone and run.done and self._runs.get(uid) is run:
            del self._runs[uid]
            for pod_uid, _ in run.streams:
                self._reported.pop(pod_uid, None)

    def _present(self, container: StartedContainer) -> bool:
        if self._pods is None:
            return True
        pod = self._pods.get(container.pod)
        return pod is not None and uid_of(pod) == container.pod_uid

    async def run(self) -> None:
        """Stores lines that have waited, again and again, until it is cancelled; then ends all streams."""
        try:
            while True:
                await asyncio.sleep(_TICK)
                due = self._clock.monotonic() - FLUSH
                for run in tuple(self._runs.values()):
                    await self._flush(run, due)
        finally:
            tasks = tuple(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def flush(self, uid: str) -> None:
        """Stores the lines of a run that came until now, as far as the store can take them."""
        run = self._runs.get(uid)
        if run is not None:
            await self._flush(run, self._clock.monotonic())

    async def _flush(self, run: _Run, due: float) -> None:
        for stream in tuple(run.streams.values()):
            writer = stream.writer
            if writer is None or not writer.pending_bytes or writer.pending_since > due:
                continue
            try:
                await writer.flush()
            except (StoreError, OSError, RunGoneError) as error:
                log.debug("lines of %s wait for the store: %s", run.key, error)
