"""The jobs of `make demo`: benchmarks for the history, a locked cluster, and a job that waits for it."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dev import resources
from devcluster import DevclusterError
from devcluster.progress import Progress
from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import TERMINAL
from fournos.client.asynchronous import AsyncClient
from fournos.insight.values import status_of
from fournos.kube.client import Client
from fournos.kube.credentials import load
from fournos.kube.errors import AlreadyExistsError
from fournos.kube.resource import Obj, key_of

LIMIT: Final = 300.0
SLOW: Final = "demo-slow-"
"""Prefix of a job whose mock benchmark is slower."""
SAMPLES: Final = 3
"""Benchmarks that the history has beside the slow one: all fit into one cluster, so that they compare."""


@dataclass(frozen=True)
class Ran:
    """The names of jobs that are in the history."""

    followed: str
    slow: str
    others: tuple[str, ...]


async def run(kubeconfig: Path, namespace: str, progress: Progress) -> tuple[Ran, list[Obj]]:
    """Submits what the history does not have yet, one job at least, and follows the first one.

    Returns the runs, and the submitted jobs when all are in the history.
    """
    (sample,) = resources.load("dev/sample-job.yaml")
    prefix = sample["metadata"]["generateName"]
    async with Client(load(kubeconfig)) as api:
        plain, slow = await _there(api, namespace, sample["spec"]["owner"])
        prefixes = [prefix] * max(1, SAMPLES - len(plain)) + [SLOW] * (not slow)
        created = [await _create(api, sample, {"generateName": one}, namespace) for one in prefixes]
        await _stand(api, namespace)
        ended = await _ended(api, created, progress)
    names = [key_of(job).name for job in ended]
    slow += [name for name in names if name.startswith(SLOW)]
    first, *others = [name for name in names if name not in slow]
    return Ran(first, slow[0], (*others, *plain)), ended


async def _there(api: Client, namespace: str, owner: str) -> tuple[list[str], list[str]]:
    """Returns the runs that the history has: those of the sample, and those of the slow one."""
    plain: list[str] = []
    slow: list[str] = []
    history = AsyncClient(api=api, namespace=namespace).history
    async for found in history.runs(owner=owner, phase="Succeeded", text="demo-", limit=100):
        (slow if found.name.startswith(SLOW) else plain).append(found.name)
    return plain, slow


async def _stand(api: Client, namespace: str) -> None:
    """Creates the jobs that stay: the lock of a cluster, and the job that waits for its end."""
    for job in resources.load("dev/demo-jobs.yaml"):
        with suppress(AlreadyExistsError):
            await _create(api, job, job["metadata"], namespace)


async def _create(api: Client, job: Obj, metadata: Obj, namespace: str) -> Obj:
    return await api.create(FOURNOS_JOB, {**job, "metadata": {**metadata, "namespace": namespace}})


async def _ended(api: Client, created: list[Obj], progress: Progress) -> list[Obj]:
    """Follows the first job.  Returns all of them when the history has their ends."""
    try:
        async with asyncio.timeout(LIMIT):
            await _follow(api, created[0], progress)
            with progress.step("The other jobs end, and the history has all of them", usual="20 s"):
                client = AsyncClient(api=api)
                return list(await asyncio.gather(*(recorded(client, job) for job in created)))
    except TimeoutError:
        last = [await api.get(FOURNOS_JOB, key_of(job)) for job in created]
        states = [f"{key_of(job).name} {_state(job)}" for job in last]
        raise DevclusterError(
            f"The jobs are not done and recorded after {LIMIT:g} s: {'; '.join(states)}"
        ) from None


def _state(job: Obj) -> str:
    status = status_of(job)
    stored = "recorded" if status.get("archivedAt") else "not recorded"
    return f"{status.get('phase')} ({stored}): {status.get('message')}"


async def recorded(client: AsyncClient, job: Obj) -> Obj:
    """Waits until the end of the job is in the history, and returns the job.

    All jobs of a namespace share one watch.  Raises DevclusterError if the job is deleted before.
    """
    async with client.watches.follow(FOURNOS_JOB, job) as following:
        while (found := following.object) is not None:
            if status_of(found).get("archivedAt"):
                return found
            await following.change()
    raise DevclusterError(f"FournosJob {key_of(job).name} was deleted before its end was recorded")


async def _follow(api: Client, job: Obj, progress: Progress) -> Obj:
    """Prints each new phase and message until the job has ended.  Returns the job."""
    key, started, shown = key_of(job), time.monotonic(), ("", "")
    progress.print(f"     FournosJob {key.name}")
    while True:
        version = str(job["metadata"]["resourceVersion"])
        watch = api.watch(FOURNOS_JOB, namespace=key.namespace, resource_version=version)
        async for event in watch:
            if event.type != "MODIFIED" or key_of(event.object) != key:
                continue
            job = event.object
            shown = _show(job, shown, time.monotonic() - started, progress)
            if shown[0] in TERMINAL:
                return job
        # A watch may end before it delivers the last change, so the job is read again.
        job = await api.get(FOURNOS_JOB, key)
        shown = _show(job, shown, time.monotonic() - started, progress)
        if shown[0] in TERMINAL:
            return job


def _show(job: Obj, shown: tuple[str, str], elapsed: float, progress: Progress) -> tuple[str, str]:
    status = status_of(job)
    now = (status.get("phase") or "", status.get("message") or "")
    if now != shown:
        cluster = f" on {status['cluster']}" if status.get("cluster") else ""
        progress.print(f"     {elapsed:5.1f} s  {now[0]:<10}{cluster}  {now[1]}")
    return now
