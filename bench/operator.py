"""Runs the operator as a separate process, so that its resource usage can be measured separately."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from bench.machine import cpu, memory
from bench.rig import NAMESPACE, SECRETS_NAMESPACE

ROOT = Path(__file__).resolve().parents[1]
_READY_WITHIN = 120.0
_STOP_WITHIN = 30.0
_ANSWERS_WITHIN = 10.0


@dataclass(frozen=True, slots=True)
class Usage:
    """The resource usage of the process since its start."""

    cpu: float
    """CPU seconds, user and system."""
    rss: int
    """Resident memory in bytes."""
    peak: int
    """Peak resident memory in bytes."""
    requests: Counter[tuple[str, str, str]]
    """Requests by client ("local", "events", "lease"), verb and resource."""
    passes: float

    def calls(self) -> int:
        """The number of requests without those for the lease and watches."""
        return sum(
            n for (client, verb, _), n in self.requests.items() if client != "lease" and verb != "watch"
        )


class Operator:
    """A running operator process; see `operator`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.ready_after = 0.0
        """Seconds from the start of the process to the first successful /readyz."""
        self._process = process
        self._url = f"http://127.0.0.1:{port}"
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    async def await_ready(self, started: float) -> None:
        async with aiohttp.ClientSession() as session:
            while time.perf_counter() - started < _READY_WITHIN:
                if self._process.poll() is not None:
                    raise RuntimeError(f"the operator ended by itself:\n{self.tail()}")
                try:
                    async with session.get(f"{self._url}/readyz") as answer:
                        if answer.status == 200:
                            self.ready_after = time.perf_counter() - started
                            return
                except aiohttp.ClientError:
                    pass  # the process does not listen yet
                await asyncio.sleep(0.02)
        raise RuntimeError(f"the operator is not ready after {_READY_WITHIN:g} s:\n{self.tail()}")

    async def usage(self) -> Usage:
        samples = await self._samples()
        requests: Counter[tuple[str, str, str]] = Counter()
        passes = 0.0
        for name, labels, value in samples:
            if name == "fournos_api_requests_total":
                requests[labels["cluster"], labels["verb"], labels["resource"]] += int(value)
            elif name == "fournos_reconciles_total":
                passes += value
        rss, peak = memory(self.pid)
        return Usage(cpu(self.pid), rss, peak, requests, passes)

    async def busy(self) -> bool:
        """True if the work queue has keys that wait or are being processed."""
        samples = await self._samples()
        gauges = ("workqueue_depth", "controller_runtime_active_workers")
        return any(value for name, _, value in samples if name in gauges)

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        """kill -9: its Lease stays and must expire."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stops the process gracefully; kills it after a timeout."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def tail(self) -> str:
        return tail(self._log)

    async def _samples(self) -> list[tuple[str, dict[str, str], float]]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self._url}/metrics") as answer,
        ):
            text = await answer.text()
        return samples(text)


@asynccontextmanager
async def operator(
    kubeconfig: Path,
    log: Path,
    *,
    enable: str = "jobs",
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Operator]:
    """Starts `fournos run` and waits until it is ready.  `settings` are environment variables."""
    started = time.perf_counter()
    running = await launch(kubeconfig, log, enable=enable, settings=settings)
    try:
        await running.await_ready(started)
        yield running
    finally:
        await asyncio.to_thread(running.stop)


async def launch(
    kubeconfig: Path, log: Path, *, enable: str = "jobs", settings: Mapping[str, str] | None = None
) -> Operator:
    """Starts the process of `operator` and returns at once.  The caller stops it."""
    port = free_port()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "KUBECONFIG": str(kubeconfig),
        "FOURNOS_NAMESPACE": NAMESPACE,
        "FOURNOS_SECRETS_NAMESPACE": SECRETS_NAMESPACE,
        "FOURNOS_RESOLVE_JOB_TEMPLATE": str(ROOT / "dev/mock-resolve/resolve_job.yaml"),
        **(settings or {}),
    }
    command = [sys.executable, "-m", "fournos", "run", "--enable", enable, "--health-port", str(port)]
    process = await asyncio.to_thread(start, command, environment, log, ROOT)
    return Operator(process, port, log)


def samples(text: str) -> list[tuple[str, dict[str, str], float]]:
    """Returns name, labels and value of each sample of a text in Prometheus format."""
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def tail(log: Path) -> str:
    """Returns the last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])


def start(
    command: list[str], environment: dict[str, str], log: Path, checkout: Path
) -> subprocess.Popen[bytes]:
    """Starts a process in a checkout, with its output in a log."""
    with log.open("wb") as out:
        return subprocess.Popen(command, env=environment, cwd=checkout, stdout=out, stderr=subprocess.STDOUT)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
