"""A server with logs, and rows and blobs in memory, with their faults."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import Key
from fournos.history.logs.stored import ContainerLog
from fournos.history.records import Identity

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
RUN = Identity("here", "bench", "uid-1")
KEY = Key("bench", "job")


def container(
    name: str = "step-main", *, pod: str = "pod", code: int | None = 0, **more: Any
) -> ContainerLog:
    made = ContainerLog(pod, f"{pod}-uid", name, "run", 1, 0, BEGAN, BEGAN, code)
    return replace(made, **more)


@dataclass
class Kubelet:
    """Serves logs by pod and container."""

    logs: dict[tuple[str, str], bytes] = field(default_factory=dict)
    errors: list[Exception] = field(default_factory=list)
    """Raised by the next requests."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    piece: int = 10**6

    def print(self, one: ContainerLog, *lines: str) -> None:
        self.logs[one.pod, one.container] = "".join(f"{line}\n" for line in lines).encode()

    async def log_stream(self, pod: Key, *, container: str) -> AsyncGenerator[bytes, None]:
        self.requests.append((pod.name, container))
        if self.errors:
            raise self.errors.pop(0)
        if (text := self.logs.get((pod.name, container))) is None:
            raise NotFoundError(f"pods {pod.name} not found", status=404)
        return self._pieces(text)

    async def _pieces(self, text: bytes) -> AsyncGenerator[bytes, None]:
        for at in range(0, len(text), self.piece):
            yield text[at : at + self.piece]


class MemoryRows:
    """The rows of logs in memory."""

    def __init__(self) -> None:
        self.runs = {RUN}
        self.stored: dict[tuple[str, str], tuple[ContainerLog, str]] = {}
        self.claimed: dict[str, int] = {}
        self.errors: list[Exception] = []

    async def claim_blob(self, identity: Identity, key: str, size: int) -> bool:
        if self.errors:
            raise self.errors.pop(0)
        if identity in self.runs:
            self.claimed[key] = size
        return identity in self.runs

    async def put(self, identity: Identity, log: ContainerLog, key: str) -> None:
        self.stored[log.id] = log, key

    async def logs(self, identity: Identity) -> list[ContainerLog]:
        return [log for log, _ in self.stored.values()]


class MemoryBlobs:
    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.errors: list[Exception] = []

    async def write(self, key: str, data: bytes) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.data[key] = data
