"""A kubelet with logs in memory, a store and a blob store in memory, and their faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from fournos.engine.kube.errors import ConnectionLostError, KubeError, NotFoundError
from fournos.engine.kube.resource import Key
from fournos.history.logs.lines import nanoseconds, timestamp, written
from fournos.history.logs.models import Chunk, Log, Put, StartedContainer
from fournos.history.records import Identity
from fournos.history.store.errors import StoreUnavailableError

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
RUN = Identity("here", "bench", "uid-1")


class LoopClock:
    """The virtual time of the event loop."""

    def now(self) -> datetime:
        return BEGAN + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def container(name: str = "step-main", *, pod: str = "pod", **fields: object) -> StartedContainer:
    made = StartedContainer(Key("bench", pod), f"{pod}-uid", name, "run", 1, 0, BEGAN)
    return replace(made, **fields)  # type: ignore[arg-type]


def ended(one: StartedContainer, code: int = 0) -> StartedContainer:
    return replace(one, ended_at=LoopClock().now(), exit_code=code)


@dataclass
class Printed:
    lines: list[bytes] = field(default_factory=list)
    over: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Kubelet:
    """Serves logs as a kubelet does: `since` counts in whole seconds."""

    def __init__(self) -> None:
        self.logs: dict[tuple[Key, str], Printed] = {}
        self.requests: list[dict[str, object]] = []
        self.open = 0
        self.most_open = 0
        self.errors: list[KubeError] = []
        """Raised by the next requests."""
        self.cut_after: list[int] = []
        """The next streams end after so many lines, by a lost connection."""
        self.piece = 10**6

    def print(self, one: StartedContainer, *texts: str, at: int | None = None) -> None:
        """Prints lines now, or with this timestamp in nanoseconds."""
        log = self.logs.setdefault((one.pod, one.name), Printed())
        now = int(LoopClock().now().timestamp() * 1e9) if at is None else at
        log.lines += [f"{written(now)} {text}".encode() for text in texts]
        self._wake(log)

    def end(self, one: StartedContainer, *, gone: bool = False) -> None:
        log = self.logs.setdefault((one.pod, one.name), Printed())
        log.over = True
        self._wake(log)
        if gone:
            del self.logs[one.pod, one.name]

    @staticmethod
    def _wake(log: Printed) -> None:
        log.changed.set()
        log.changed = asyncio.Event()

    async def log_stream(
        self, pod: Key, *, container: str, follow: bool = True, since: str = "", tail: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        self.requests.append({"container": container, "follow": follow, "since": since, "tail": tail})
        if self.errors:
            raise self.errors.pop(0)
        log = self.logs.get((pod, container))
        if log is None:
            raise NotFoundError(f"pods {pod.name} not found", status=404)
        return self._stream(log, follow, since, tail)

    async def _stream(
        self, log: Printed, follow: bool, since: str, tail: int | None
    ) -> AsyncGenerator[bytes, None]:
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        cut = self.cut_after.pop(0) if self.cut_after else None
        begin = nanoseconds(since) // 10**9 * 10**9 if since else 0
        sent = 0
        wanted = len(log.lines) - tail if tail is not None else 0
        try:
            while True:
                while wanted < len(log.lines):
                    if cut is not None and sent >= cut:
                        raise ConnectionLostError("cut")
                    line = log.lines[wanted] + b"\n"
                    wanted += 1
                    if timestamp(line) < begin:
                        continue
                    sent += 1
                    for at in range(0, len(line), self.piece):
                        yield line[at : at + self.piece]
                if log.over or not follow:
                    return
                await log.changed.wait()
        finally:
            self.open -= 1


class MemoryRows:
    """The rows of logs in memory, with the faults of a database."""

    def __init__(self) -> None:
        self.runs = {RUN}
        self.stored: dict[tuple[str, str], Log] = {}
        self.parts: dict[tuple[str, str], list[Chunk]] = {}
        self.claimed: dict[str, int] = {}
        self.down = False
        self.fail_after: list[bool] = []
        """For the next writes: True fails after the commit."""
        self.writes = 0

    def _answer(self) -> None:
        if self.down:
            raise StoreUnavailableError("down")

    async def claim_blob(self, identity: Identity, key: str, size: int) -> bool:
        self._answer()
        if identity not in self.runs:
            return False
        self.claimed[key] = size
        return True

    async def unclaim_blobs(self, keys: list[str]) -> None:
        for key in keys:
            self.claimed.pop(key, None)

    async def log(self, identity: Identity, container: StartedContainer) -> tuple[Log, Chunk | None]:
        self._answer()
        chunks = self.parts.get(container.id, [])
        return self.stored.get(container.id, Log(container)), chunks[-1] if chunks else None

    async def put_log(self, identity: Identity, log: Log, chunk: Chunk | None, *, after: int) -> Put:
        self._answer()
        self.writes += 1
        if identity not in self.runs:
            return Put.NO_RUN
        if self.stored.get(log.container.id, Log(log.container)).lines != after:
            return Put.BEHIND
        self.stored[log.container.id] = log
        if chunk is not None:
            chunks = self.parts.setdefault(log.container.id, [])
            chunks[:] = [*(one for one in chunks if one.number != chunk.number), chunk]
        if self.fail_after and self.fail_after.pop(0):
            raise StoreUnavailableError("the connection was lost")
        return Put.STORED

    async def chunks(self, identity: Identity, log: Log, first: int, last: int) -> list[Chunk]:
        self._answer()
        found = self.parts.get(log.container.id, [])
        return [one for one in found if one.first < last and one.first + one.lines > first]

    # --- as the API reads them ---

    async def logs(self, identity: Identity) -> list[Log]:
        return list(self.stored.values())


class MemoryBlobs:
    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.full = False

    async def write(self, key: str, data: bytes) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.data[key] = data

    async def room(self) -> None:
        return None

    async def read(self, key: str) -> bytes | None:
        return self.data.get(key)

    async def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.data.pop(key, None)


async def until(holds: Callable[[], object], seconds: float = 3600.0, *, pause: float = 0.5) -> None:
    """Waits by the clock of the loop, which is virtual in unit tests."""
    end = LoopClock().monotonic() + seconds
    while not holds():
        assert LoopClock().monotonic() < end, "it does not come true"
        await asyncio.sleep(pause)
