"""Measures the logs of the history without a cluster: CPU, memory in a flood and with many streams, reading.

A server in a process of its own plays the API server over TLS; the rest is the recorder's: its client, its
collector, SQLite and a directory.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median, quantiles

import uvloop
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bench.history import make_run
from bench.tasks import background, until
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.clock import SystemClock
from fournos.history.blobs import DirectoryBlobs
from fournos.history.logs.collector import LogCollector
from fournos.history.logs.limits import LogLimits
from fournos.history.logs.models import StartedContainer
from fournos.history.logs.pages import LogReader
from fournos.history.records import Record
from fournos.history.store import HistoryStore
from fournos.history.store.logs import LogRows

_RUN = make_run(0, 1)
_LINE = "epoch {0} step {0} throughput {1:.3f} tok/s latency_p99 {2:.1f} ms loss {3:.5f}"
_READS = 200
SETTLED = 15.0
"""Seconds in which the first line of each stream is stored."""


def _container(name: str) -> StartedContainer:
    return StartedContainer(Key("bench", name), f"uid-{name}", "step-run", "run", 1, 0, datetime.now(UTC))


async def _log(request: web.Request) -> web.StreamResponse:
    """`many-N`: N lines.  `flood`: lines for ever, as fast as they are read.  Others: one line."""
    name = request.match_info["pod"]
    response = web.StreamResponse()
    await response.prepare(request)
    source = random.Random(1)  # noqa: S311 - the same lines in each run
    began = time.time()

    def block(first: int, number: int) -> bytes:
        lines = []
        for one in range(first, first + number):
            at = began + one * 1e-6
            stamp = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
            text = _LINE.format(one, source.random() * 900, source.random() * 90, source.random())
            lines.append(f"{stamp}000Z {text}\n")
        return "".join(lines).encode()

    if name == "flood":
        data = block(0, 1000)
        while True:
            await response.write(data)
    elif name.startswith("many-"):
        number = int(name.removeprefix("many-"))
        for first in range(0, number, 1000):
            await response.write(block(first, min(1000, number - first)))
    else:
        await response.write(block(0, 1))
        await asyncio.sleep(3600)
    return response


def serve(folder: Path) -> None:
    """Serves until it is killed; writes its port into the folder."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1)
        )
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    (folder / "ca.crt").write_bytes(pem)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(private + pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "key.pem")

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/bench/pods/{pod}/log", _log)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "localhost", 0, ssl_context=context, backlog=4096)
        await site.start()
        assert runner.addresses
        (folder / "port.new").write_text(str(runner.addresses[0][1]))
        (folder / "port.new").rename(folder / "port")
        await asyncio.Event().wait()

    asyncio.run(run())


@asynccontextmanager
async def log_server(folder: Path) -> AsyncIterator[Client]:
    """A client of the server, which runs in a process of its own."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.logs", "--serve", str(folder))
    try:
        await until((folder / "port").exists)
        url = f"https://localhost:{(folder / 'port').read_text()}"
        credentials = Credentials(url, FixedIdentity(Proof()), ca=(folder / "ca.crt").read_bytes())
        async with Client(credentials, qps=10_000, burst=10_000) as client:
            yield client
    finally:
        process.kill()
        await process.wait()


def resident() -> float:
    """The resident memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class _Bench:
    def __init__(self, folder: Path, store: HistoryStore, client: Client) -> None:
        self.folder, self.store, self.client = folder, store, client
        self.blobs = DirectoryBlobs(folder / "blobs")

    def collector(self, limits: LogLimits, streams: int) -> LogCollector:
        async def rows() -> LogRows:
            return LogRows(self.store)

        return LogCollector(rows, self.blobs, limits, SystemClock(), streams=streams)

    async def lines(self, number: int) -> None:
        """CPU of storing so many lines, and the time of opening the log at any of them."""
        collector, container = self.collector(LogLimits(10**10, 10**10), 10), _container(f"many-{number}")
        cpu, began = time.process_time(), time.perf_counter()
        over = replace(container, ended_at=datetime.now(UTC), exit_code=0)
        collector.follow(Key("bench", "job"), _RUN.identity, [over], self.client)
        await until(lambda: collector.known(_RUN.identity.uid)[container.id].done)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - began
        (log,) = await LogRows(self.store).logs(_RUN.identity)
        assert log.lines == number, log
        size = sum(path.stat().st_size for path in (self.folder / "blobs").rglob("*") if path.is_file())
        print(
            f"{number} lines, {log.bytes / 1e6:.0f} MB: stored in {wall:.1f} s, CPU {cpu:.1f} s, "
            f"on disk {size / 1e6:.1f} MB"
        )
        taken = []
        for _ in range(_READS):
            first = random.randrange(1, number)  # noqa: S311 - any line
            at = time.perf_counter()
            rows = LogRows(self.store)
            reader = LogReader(rows, self.blobs, _RUN.identity, await rows.logs(_RUN.identity), over=False)
            page = await reader.page(first, 100)
            taken.append((time.perf_counter() - at) * 1000)
            assert page.lines[0].line == first
        print(
            f"100 lines from any line on: p50 {median(taken):.1f} ms, p95 {quantiles(taken, n=20)[-1]:.1f} ms"
        )

    async def flood(self, seconds: float, containers: int) -> None:
        """Memory while containers print as fast as they are read."""
        collector = self.collector(LogLimits(10**10, 10**10), 100)
        async with background(collector.run()):
            before, cpu, most = resident(), time.process_time(), 0.0
            for number in range(containers):
                one = replace(_container("flood"), pod_uid=f"flood-{number}")
                collector.follow(Key("bench", "job"), _RUN.identity, [one], self.client)
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                await asyncio.sleep(0.2)
                most = max(most, resident())
        cpu = time.process_time() - cpu
        print(
            f"flood of {containers} containers, {seconds:.0f} s: memory {before:.0f} → {most:.0f} MB, "
            f"CPU {cpu:.1f} s"
        )

    async def streams(self, number: int) -> None:
        """Memory of so many open streams."""
        collector = self.collector(LogLimits(), number)
        async with background(collector.run()):
            before, cpu = resident(), time.process_time()
            ones = [_container(f"quiet-{one}") for one in range(number)]
            collector.follow(Key("bench", "job"), _RUN.identity, ones, self.client)
            await until(lambda: collector.waiting_bytes == 0 and collector.streams == number)
            await asyncio.sleep(SETTLED)
            cpu = time.process_time() - cpu
            print(f"{number} streams: memory {before:.0f} → {resident():.0f} MB, CPU {cpu:.1f} s")


async def measure(lines: int, streams: int, seconds: float) -> None:
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="fournos-logs-"))
    async with (
        await HistoryStore.open(f"sqlite:///{folder / 'history.db'}") as store,
        log_server(folder) as client,
    ):
        await store.record(Record(_RUN))
        bench = _Bench(folder, store, client)
        await bench.lines(lines)
        await bench.streams(streams)
        await bench.flood(seconds, 1)
        await bench.flood(seconds, 20)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.logs", description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000, help="lines of one log (1000000)")
    parser.add_argument("--streams", type=int, default=500, help="open streams (500)")
    parser.add_argument("--seconds", type=float, default=10, help="length of a flood (10)")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
    uvloop.run(measure(given.lines, given.streams, given.seconds))


if __name__ == "__main__":
    main()
