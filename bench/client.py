"""Measures the client library beside the API server's own time: a matrix of jobs, and the end of a wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import aiohttp
import orjson

from bench.rig import NAMESPACE, new_rig
from fournos.api.kinds import FOURNOS_JOB
from fournos.client import AsyncClient
from fournos.engine.kube.credentials import load
from fournos.engine.kube.resource import Key

CONNECTIONS: Final = 32
"""As many as the client uses for a matrix."""
WAITS: Final = 20
_PAUSE: Final = 0.1
SPEC: Final[dict[str, Any]] = {"cluster": "cluster-1", "executionEngine": {"forge": {"project": "llmd"}}}


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of each turn: creates by plain requests, and by `submit_matrix`; and of each wait's end."""

    jobs: int
    plain: tuple[float, ...]
    matrix: tuple[float, ...]
    waits: tuple[float, ...]
    """From the answer to the status write to the return of `wait`; negative if the watch was faster."""

    @property
    def ratio(self) -> float:
        """The client's median time for the matrix over that of plain requests."""
        return median(self.matrix) / median(self.plain)


async def measure(cluster: str, jobs: int, *, turns: int, keep: bool) -> Measured:
    """Takes turns between plain requests and the client, on one control plane without an operator."""
    async with new_rig(cluster, quotas={"cluster-1": 100}, keep=keep) as rig:
        kubeconfig = rig.cluster.kubeconfig_path
        async with AsyncClient(kubeconfig=kubeconfig, namespace=NAMESPACE, owner="bench") as client:
            plain, matrix = [], []
            await _matrix(client, CONNECTIONS, "warm-up")
            async with _plain(kubeconfig) as session:
                await _creates(session, CONNECTIONS, "warm-up")
                for turn in range(turns):
                    plain.append(await _took(_creates(session, jobs, f"plain-{turn}")))
                    matrix.append(await _took(_matrix(client, jobs, f"turn-{turn}")))
            waits = [await _wait(client, number) for number in range(WAITS)]
    return Measured(jobs, tuple(plain), tuple(matrix), tuple(waits))


@asynccontextmanager
async def _plain(kubeconfig: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """A session without any of the client's code, with as many connections."""
    credentials = load(kubeconfig)
    headers, tls = await credentials.proof()
    connector = aiohttp.TCPConnector(limit=CONNECTIONS, ssl=tls or True)
    async with aiohttp.ClientSession(
        credentials.server, connector=connector, headers={**headers, "Content-Type": "application/json"}
    ) as session:
        yield session


async def _creates(session: aiohttp.ClientSession, jobs: int, label: str) -> None:
    path = FOURNOS_JOB.path(namespace=NAMESPACE)
    free = asyncio.Semaphore(CONNECTIONS)

    async def create(number: int) -> None:
        spec = {**SPEC, "owner": "bench", "env": {"N": str(number)}}
        meta = {"generateName": "plain-", "namespace": NAMESPACE, "labels": {"fournos.dev/matrix": label}}
        body = {"apiVersion": "fournos.dev/v1", "kind": "FournosJob", "metadata": meta, "spec": spec}
        async with free, session.post(path, data=orjson.dumps(body)) as answer:
            await answer.read()
            answer.raise_for_status()

    await asyncio.gather(*(create(number) for number in range(jobs)))


async def _matrix(client: AsyncClient, jobs: int, label: str) -> None:
    made = await client.submit_matrix(SPEC, {"env.N": [str(number) for number in range(jobs)]}, label=label)
    if len({job.uid for job in made}) != jobs:
        raise RuntimeError(f"{len(made)} jobs instead of {jobs}")


async def _wait(client: AsyncClient, number: int) -> float:
    job = await client.submit(SPEC, name=f"wait-{number}")

    async def ended() -> float:
        await job.wait(timeout=30)
        return time.monotonic()

    waiting = asyncio.create_task(ended())
    await asyncio.sleep(_PAUSE)
    body = {"status": {"phase": "Succeeded"}}
    await client.api.patch(FOURNOS_JOB, Key(NAMESPACE, job.name), body, subresource="status")
    written = time.monotonic()
    return await waiting - written


async def _took(work: Awaitable[None]) -> float:
    start = time.monotonic()
    await work
    return time.monotonic() - start
