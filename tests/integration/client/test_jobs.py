"""The client against a real API server: what only its answers show, and the numbers."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from fournos.client import (
    AsyncClient,
    ConflictError,
    DeletedError,
    KeyConflict,
    MissingError,
    NotAllowedError,
)
from fournos.client.submission import MATRIX_LABEL
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.credentials import Credentials, load
from tests.integration.conftest import Server

SPEC: dict[str, Any] = {"cluster": "cluster-1", "executionEngine": {"forge": {"project": "llmd"}}}


@pytest.fixture
async def fournos(kubeconfig: Path, crds: None, namespace: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(kubeconfig=kubeconfig, namespace=namespace, owner="perf") as found:
        yield found


async def set_phase(server: Server, client: AsyncClient, name: str, phase: str) -> None:
    path = f"/apis/fournos.dev/v1/namespaces/{client.namespace}/fournosjobs/{name}/status"
    status, answer = await server.patch(path, {"status": {"phase": phase}})
    assert status == 200, answer


async def test_a_key_is_kept_by_the_server(fournos: AsyncClient) -> None:
    first = await fournos.submit(SPEC, key="build 7")
    assert first.spec.exclusive is True  # a default of the server's, which is no other spec
    assert (await fournos.submit(SPEC, key="build 7")).uid == first.uid
    many = await asyncio.gather(*(fournos.submit(SPEC, key="at once") for _ in range(8)))
    assert len({job.uid for job in many}) == 1
    with pytest.raises(KeyConflict):
        await fournos.submit({**SPEC, "cluster": "cluster-2"}, key="build 7")


async def test_a_handle_never_touches_another_job_of_its_name(fournos: AsyncClient) -> None:
    job = await fournos.submit(SPEC, name="one")
    stale = copy.copy(job)
    await job.delete()
    other = await fournos.submit(SPEC, name="one")
    with pytest.raises(DeletedError):
        await stale.delete()
    # The server itself refuses the write, where the handle has not seen the new job.
    stale.refresh = _nothing  # type: ignore[method-assign]
    with pytest.raises(ConflictError):
        await stale.stop()
    await other.refresh()
    assert "shutdown" not in other.raw["spec"]


async def _nothing() -> None: ...


async def test_the_end_is_seen_within_a_tenth_of_a_second(fournos: AsyncClient, server: Server) -> None:
    """On a machine with other work: within the time, too, that a plain write takes there."""
    delays, writes = [], []
    for number in range(9):
        job = await fournos.submit(SPEC, name=f"job-{number}")
        waiting = asyncio.create_task(job.wait(timeout=60))
        await asyncio.sleep(0.3)
        began = time.monotonic()
        await set_phase(server, fournos, job.name, "Succeeded")
        written = time.monotonic()
        await waiting
        delays.append(time.monotonic() - written)
        writes.append(written - began)
    assert min(delays) < 0.1 + median(writes), (delays, writes)


async def test_a_matrix_costs_what_its_requests_cost(
    fournos: AsyncClient, server: Server, namespace: str
) -> None:
    """Beside the server's own time for as many creates, with as many connections."""
    count = 200
    path = f"/apis/fournos.dev/v1/namespaces/{namespace}/fournosjobs"
    body = {"apiVersion": "fournos.dev/v1", "kind": "FournosJob", "spec": {**SPEC, "owner": "perf"}}
    free = asyncio.Semaphore(32)

    async def create(number: int) -> None:
        async with free:
            meta = {"generateName": f"raw-{number}-"}
            status, answer = await server("POST", path, {**body, "metadata": meta})
            assert status == 201, answer

    async def raw() -> None:
        await asyncio.gather(*(create(number) for number in range(count)))

    async def ours(label: str) -> None:
        jobs = await fournos.submit_matrix(
            SPEC, {"env.N": [str(number) for number in range(count)]}, label=label
        )
        assert len({job.uid for job in jobs}) == count
        assert len(await fournos.jobs(selector=f"{MATRIX_LABEL}={label}")) == count

    spent = []
    for label in ("first", "second", "third"):  # other work of the machine spoils one of them, not all
        spent.append((await _took(raw), await _took(partial(ours, label))))
        if spent[-1][1] < 3 * spent[-1][0] + 1:
            return
    raise AssertionError(spent)


async def _took(work: Callable[[], Awaitable[None]]) -> float:
    start = time.monotonic()
    await work()
    return time.monotonic() - start


async def test_no_right_and_no_such_namespace(fournos: AsyncClient, kubeconfig: Path, namespace: str) -> None:
    found = load(kubeconfig)
    unknown = Credentials(found.server, FixedIdentity(Proof("wrong", None, None)), ca=found._ca)
    async with AsyncClient(credentials=unknown, namespace=namespace) as client:
        for call in (client.submit(SPEC), client.jobs(), client.job("x")):
            with pytest.raises(NotAllowedError) as refusal:
                await call
            assert refusal.value.fix
    async with AsyncClient(kubeconfig=kubeconfig, namespace="nowhere") as client:
        with pytest.raises(MissingError):
            await client.submit(SPEC)
