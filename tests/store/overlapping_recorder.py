"""One of two recorders that work at the same time on one database and one bucket.

`python -m tests.store.overlapping_recorder URL CLUSTER SENT BUCKET PREFIX ENDPOINT` stores the
log and records the run that both have, sends the files that both are sent, expires and sweeps, and announces
the confirmed changes of its cluster to the file SENT.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from fournos.engine.kube.resource import Key
from fournos.history.alerts.announce import Announcer, Events, Webhook
from fournos.history.alerts.news import News, NewsContext
from fournos.history.artifacts import ArtifactLimits, Artifacts
from fournos.history.blobs import Blobs, open_blobs
from fournos.history.logs.collector import LogCollector
from fournos.history.records import Identity, Record
from fournos.history.store import HistoryStore
from fournos.history.store.blobs import LogRows
from fournos.history.store.retention import RetentionLimits, expire
from fournos.history.store.verdicts import standings
from tests.history import a_run, at
from tests.store.conftest import artifact_rows
from tests.unit.history.logs.stage import Kubelet, container
from tests.waiting import until

SHARED = Identity("here", "bench", "uid-shared")
LINES = [f"line {number} of the log that two recorders store" for number in range(300)]
MAIN = container()
FILES = {f"f{number}.txt": [f"{number} {version}".encode() for version in range(6)] for number in range(4)}
EXPIRED = 40
"""Runs that are beyond the retention, each with a blob."""


class FileReceiver(Webhook):
    """Appends the identifier of each message to a file, and takes as long as a receiver that is far away."""

    def __init__(self, sent: Path) -> None:
        super().__init__(str(sent))
        self._sent = sent

    @property
    def there(self) -> bool:
        return True

    async def send(self, news: News, context: NewsContext) -> None:
        await asyncio.sleep(0.3)
        with self._sent.open("a") as file:
            file.write(f"{news.id} {news.run} {os.getpid()}\n")


class Clock:
    def now(self) -> object:
        return at(60)


async def log(store: HistoryStore, blobs: Blobs) -> None:
    async def rows() -> LogRows:
        return LogRows(store)

    kubelet: Any = Kubelet()
    kubelet.print(MAIN, *LINES)
    collector = LogCollector(rows, blobs, 10**6)
    collector.store(Key("bench", "shared"), SHARED, [MAIN], kubelet)
    await until(lambda: MAIN.id in collector.stored(SHARED.uid), "the log is not stored")


async def record(store: HistoryStore) -> None:
    for number in range(50):
        run = a_run(1, identity=SHARED, name="shared", resource_version=200 + number, message=str(number))
        await store.record(Record(run))
        await asyncio.sleep(0)


async def files(store: HistoryStore, blobs: Blobs) -> None:
    artifacts = Artifacts(artifact_rows(store), blobs, ArtifactLimits())
    for version in range(6):
        for path, contents in FILES.items():
            await send(artifacts, path, contents[version])


async def send(artifacts: Artifacts, path: str, content: bytes) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield content

    digest = hashlib.sha256(content).hexdigest()
    await artifacts.receive(SHARED, path, pieces(), size=len(content), sha256=digest, now=at(1))


async def retention(store: HistoryStore, blobs: Blobs) -> None:
    for _ in range(20):
        await expire(store, blobs, RetentionLimits(age=timedelta(days=30)), at(60))
        await asyncio.sleep(0.05)


async def announce(store: HistoryStore, cluster: str, sent: Path) -> None:
    clock: Any = Clock()
    nowhere: Any = None
    announcer = Announcer(clock, Events(nowhere, lambda run: None, clock, ""), FileReceiver(sent))
    for _ in range(3):
        await standings(store, at(60), announcer, cluster=cluster)
        await announcer.announce(store)
        await asyncio.sleep(0.2)


async def main(url: str, cluster: str, sent: Path, place: str) -> None:
    blobs = open_blobs(place)
    async with await HistoryStore.open(url) as store:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.gather(
            log(store, blobs),
            record(store),
            files(store, blobs),
            retention(store, blobs),
            announce(store, cluster, sent),
        )


if __name__ == "__main__":
    url, cluster, sent, place = sys.argv[1:]
    asyncio.run(main(url, cluster, Path(sent), place))
