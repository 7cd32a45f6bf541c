"""Reads the logs of ended containers from the API server, and stores each as one compressed object."""

from __future__ import annotations

import asyncio
import gzip
import io
import logging
import zlib
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

from fournos.engine.kube.errors import ForbiddenError, InvalidError, KubeError, NotFoundError
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.kube.transport import Backoff
from fournos.engine.runtime.logs import BEYOND, redact
from fournos.history.blobs import Blobs
from fournos.history.logs.stored import ContainerLog, failing_line, readable_ids
from fournos.history.records import Identity
from fournos.history.store.database import NamespaceFullError, StoreUnavailableError, StoreUsageError

if TYPE_CHECKING:
    from fournos.engine.kube.client import Client
    from fournos.history.store.blobs import LogRows

log = logging.getLogger(__name__)
T = TypeVar("T")

TAIL: Final = 64 * 1024
"""Bytes that are stored of the end of a log that is truncated."""
AT_ONCE: Final = 8
"""Logs that are read at once."""
OF_EACH: Final = 4
"""Those of one namespace: others do not wait behind all that it has."""
SILENT: Final = 60.0
"""Seconds for which the API server may send nothing of a log."""
_TRIES: Final = 5
"""Requests for a log that the API server cannot read, before it counts as gone."""
_PIECE: Final = 256 * 1024
"""Bytes that are masked and compressed together: more than any private key has."""
_LINE: Final = 16 * _PIECE
"""Bytes of a line, beyond which it is masked in parts."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_PLACES: Final = 12
"""Ends of lines that are tried for a cut."""


def cut_of(text: bytes, most: int) -> int:
    """Returns the end of a line, at most at `most`, that no secret of several lines goes across; else 0.

    There both sides look the same to the masking alone as together.
    """
    cut, back = most, 1
    for _ in range(_PLACES):
        if (cut := text.rfind(b"\n", 0, max(0, cut)) + 1) == 0:
            break
        before, after = (
            part.decode(errors="replace")
            for part in (text[max(0, cut - BEYOND) : cut], text[cut : cut + BEYOND])
        )
        if redact(before) + redact(after) == redact(before + after):
            return cut
        cut, back = cut - back, back * 4
    return 0


class MaskedText:
    """Takes what a container printed, piece by piece; keeps it without secrets, compressed and bounded."""

    def __init__(self, most: int) -> None:
        """`most`: the bytes that are kept from the beginning on; of more, only the end is kept."""
        self._left = most
        self._packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
        self._packed = bytearray()
        self._end = b""
        self.bytes = 0
        self.truncated = False

    def add(self, piece: bytes) -> None:
        """Takes whole lines."""
        rest = b""
        if self.truncated or len(piece) > self._left:  # half of a secret does not look like one
            cut = cut_of(piece, self._left)
            piece, rest = piece[:cut], piece[cut:]
            self._left, self.truncated = 0, True
        self._left = max(0, self._left - len(piece))
        self._put(redact(piece.decode(errors="replace")).encode())
        self._end = (self._end + rest)[-TAIL - BEYOND :]

    def _put(self, masked: bytes) -> None:
        self.bytes += len(masked)
        self._packed += self._packer.compress(masked)

    def packed(self) -> bytes:
        """Returns the compressed text; nothing can be added after that."""
        if self.truncated:
            self._put(b"[fournos: the run printed more than is stored; lines are left out here]\n")
            # What is before the end is masked with it, so that a secret that is cut is seen.
            masked = redact(self._end.decode(errors="replace")).encode()
            self._put(masked if len(masked) <= TAIL else masked[-TAIL:].partition(b"\n")[2])
        self._packed += self._packer.flush()
        return bytes(self._packed)


async def masked_text(pieces: AsyncGenerator[bytes, None], most: int) -> MaskedText:
    """Reads all pieces of a log.  Raises TimeoutError if the next one does not come."""
    text, waiting, enough = MaskedText(most), bytearray(), _PIECE
    async with aclosing(pieces):
        while (piece := await _in_time(anext(pieces, None))) is not None:
            waiting += piece
            if len(waiting) < enough + BEYOND:
                continue
            cut = await asyncio.to_thread(cut_of, bytes(waiting), len(waiting) - BEYOND)
            if not cut and len(waiting) >= _LINE:
                cut = len(waiting)
            if cut:
                await asyncio.to_thread(text.add, bytes(waiting[:cut]))
                del waiting[:cut]
            enough = max(_PIECE, 2 * len(waiting))  # it is not looked at again with each piece
    await asyncio.to_thread(text.add, bytes(waiting))
    return text


async def _in_time(answer: Awaitable[T]) -> T:
    async with asyncio.timeout(SILENT):
        return await answer


def lines_of(packed: bytes) -> io.TextIOWrapper:
    """Returns the lines of a stored log."""
    return io.TextIOWrapper(gzip.GzipFile(fileobj=io.BytesIO(packed)), errors="replace", newline="\n")


@dataclass(slots=True)
class _Run:
    key: Key
    done: set[tuple[str, str]] = field(default_factory=set)
    """The containers whose logs are stored, or are lost."""
    waiting: dict[tuple[str, str], ContainerLog] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


class LogCollector:
    """Stores the logs of all runs; those of one run one after the other."""

    def __init__(
        self,
        rows: Callable[[], Awaitable[LogRows]],
        blobs: Blobs,
        most: int,
        *,
        finished: Callable[[Key], None] = lambda key: None,
    ) -> None:
        """`most`: bytes of the logs of one run.

        `finished` is called with the key of a run when the logs that were asked for are stored.
        """
        self._rows = rows
        self._blobs = blobs
        self._most = most
        self._finished = finished
        self._room = asyncio.Semaphore(AT_ONCE)
        self._rooms: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(OF_EACH))
        """By namespace."""
        self._runs: dict[str, _Run] = {}
        self._done: set[tuple[str, str]] = set()

    def stored(self, uid: str) -> frozenset[tuple[str, str]]:
        """Returns the containers of a run, by `ContainerLog.id`, of which nothing more will be stored."""
        run = self._runs.get(uid)
        return frozenset(run.done) if run is not None else frozenset()

    def asked(self, uid: str) -> frozenset[tuple[str, str]]:
        """Returns the containers of a run whose logs are stored, or are being stored."""
        run = self._runs.get(uid)
        return frozenset(run.waiting) | run.done if run is not None else frozenset()

    def behind(self, pod: Obj) -> bool:
        """True if a log of the pod can be stored and is not."""
        return any(each not in self._done for each in readable_ids(pod))

    def store(self, key: Key, identity: Identity, logs: Iterable[ContainerLog], server: Client) -> None:
        """Stores these logs of a run in the background."""
        run = self._runs.setdefault(identity.uid, _Run(key))
        run.waiting |= {each.id: each for each in logs if each.id not in run.done}
        if run.waiting and run.task is None:
            run.task = asyncio.create_task(self._work(run, identity, server))

    def forget(self, uid: str) -> None:
        """Drops a run whose object is gone, and its pods with it."""
        run = self._runs.pop(uid, None)
        if run is not None:
            self._done -= run.done
            if run.task is not None:
                run.task.cancel()

    async def run(self) -> None:
        """Waits until it is cancelled; then nothing more is stored."""
        try:
            await asyncio.Event().wait()
        finally:
            tasks = [run.task for run in self._runs.values() if run.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, run: _Run, identity: Identity, server: Client) -> None:
        backoff, refused = Backoff(cap=60.0), 0
        try:
            while run.waiting:
                container = next(iter(run.waiting.values()))
                try:
                    async with self._rooms[identity.namespace], self._room:
                        await self._store(identity, container, server)
                except (NotFoundError, ForbiddenError) as error:
                    log.info("the log of %s cannot be read: %s", container.pod, error.message)
                except NamespaceFullError as error:
                    log.warning("the log of %s is not stored: %s", container.pod, error)
                except (KubeError, StoreUnavailableError, StoreUsageError, OSError, TimeoutError) as error:
                    # The watch may be faster than the kubelet, or the log be gone before its pod.
                    refused += isinstance(error, InvalidError)
                    if refused < _TRIES:
                        log.warning("the log of %s is not stored yet: %s", container.pod, error)
                        await asyncio.sleep(backoff.next())
                        continue
                except Exception:  # one log must not keep the others of the run
                    log.exception("the log of %s is not stored", container.pod)
                del run.waiting[container.id]
                run.done.add(container.id)
                self._done.add(container.id)
                refused = 0
                backoff.reset()
        finally:
            run.task = None
        self._finished(run.key)

    async def _store(self, identity: Identity, container: ContainerLog, server: Client) -> None:
        rows = await self._rows()
        stored = {each.id: each.bytes for each in await rows.logs(identity)}
        if container.id in stored:
            return  # by an earlier process
        pod, left = Key(identity.namespace, container.pod), max(0, self._most - sum(stored.values()))
        pieces = await _in_time(server.log_stream(pod, container=container.container))
        text = await masked_text(pieces, left)
        packed = await asyncio.to_thread(text.packed)
        # Each process has the same key for it: two of them overlap for a while, and store the same.
        key = f"{identity.uid}/logs/{container.pod_uid}/{container.container}"
        failing = None
        if container.exit_code:
            failing = await asyncio.to_thread(lambda: failing_line(lines_of(packed)))
        line, shown = failing or (None, "")
        if await rows.claim_blob(identity, key, len(packed)):
            await self._blobs.write(key, packed)
            await rows.put(
                identity,
                replace(
                    container,
                    bytes=text.bytes,
                    truncated=text.truncated,
                    failing_line=line,
                    failing_text=shown,
                ),
                key,
            )
        else:
            log.info("the history has no run of %s any more: its log is not stored", container.pod)
