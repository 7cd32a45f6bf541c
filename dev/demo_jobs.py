"""The jobs of `make demo`: benchmarks for the history, a locked cluster, and a job that waits for it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Set
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
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.errors import AlreadyExistsError
from fournos.engine.kube.resource import Obj, key_of
from fournos.insight.values import status_of

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

    Jobs of an interrupted demonstration count as submitted.  Returns the runs, and the jobs that were waited
    for when all are in the history.
    """
    (sample,) = resources.load("dev/sample-job.yaml")
    prefix = sample["metadata"]["generateName"]
    async with Client(load(kubeconfig)) as api:
        client = AsyncClient(api=api, namespace=namespace)
        # In this order a job that is recorded in between is in both lists, not in neither.
        jobs = await _under_way(api, namespace, (prefix, SLOW))
        plain, slow = await _there(client, sample["spec"]["owner"], {key_of(job).name for job in jobs})
        begun = Counter(job["metadata"]["generateName"] for job in jobs)
        for name in lacking(prefix, plain=len(plain), slow=len(slow), begun=begun):
            jobs.append(await _create(api, sample, {"generateName": name}, namespace))
        jobs.sort(key=lambda job: bool(job["metadata"]["generateName"] == SLOW))
        await _stand(api, namespace)
        ended = await _ended(client, jobs, progress)
    names = [key_of(job).name for job in ended]
    slow += [name for name in names if name.startswith(SLOW)]
    first, *others = [name for name in names if name not in slow]
    return Ran(first, slow[0], (*others, *plain)), ended


def lacking(prefix: str, *, plain: int, slow: int, begun: Mapping[str, int]) -> list[str]:
    """Returns the prefixes of the jobs to submit, one for each.

    `plain` and `slow` are the numbers of runs that the history has, `begun` those of the jobs under way by
    prefix.  At least one plain job is submitted or under way, to be followed.
    """
    missing = SAMPLES - plain - begun.get(prefix, 0)
    at_least = 0 if begun.get(prefix) else 1
    return [prefix] * max(at_least, missing) + [SLOW] * (not slow and not begun.get(SLOW))


async def _under_way(api: Client, namespace: str, prefixes: Collection[str]) -> list[Obj]:
    """Returns the demonstration's jobs whose end is not recorded yet."""
    jobs = (await api.list(FOURNOS_JOB, namespace=namespace)).items
    return [
        job
        for job in jobs
        if job["metadata"].get("generateName") in prefixes
        and not status_of(job).get("archivedAt")
        and not job["metadata"].get("deletionTimestamp")
    ]


async def _there(client: AsyncClient, owner: str, without: Set[str]) -> tuple[list[str], list[str]]:
    """Returns the other runs that the history has: those of the sample, and those of the slow one."""
    plain: list[str] = []
    slow: list[str] = []
    async for found in client.history.runs(owner=owner, phase="Succeeded", text="demo-", limit=100):
        if found.name not in without:
            (slow if found.name.startswith(SLOW) else plain).append(found.name)
    return plain, slow


async def _stand(api: Client, namespace: str) -> None:
    """Creates the jobs that stay: the lock of a cluster, and the job that waits for its end."""
    for job in resources.load("dev/demo-jobs.yaml"):
        with suppress(AlreadyExistsError):
            await _create(api, job, job["metadata"], namespace)


async def _create(api: Client, job: Obj, metadata: Obj, namespace: str) -> Obj:
    return await api.create(FOURNOS_JOB, {**job, "metadata": {**metadata, "namespace": namespace}})


async def _ended(client: AsyncClient, jobs: list[Obj], progress: Progress) -> list[Obj]:
    """Follows the first job.  Returns all of them when the history has their ends."""
    try:
        async with asyncio.timeout(LIMIT):
            await _follow(client, jobs[0], progress)
            with progress.step("The other jobs end, and the history has all of them", usual="20 s"):
                return list(await asyncio.gather(*(recorded(client, job) for job in jobs)))
    except TimeoutError:
        last = [await client.api.get(FOURNOS_JOB, key_of(job)) for job in jobs]
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

    Raises DevclusterError if the job is deleted before.
    """
    return await _until(client, job, lambda found: bool(status_of(found).get("archivedAt")))


async def _follow(client: AsyncClient, job: Obj, progress: Progress) -> None:
    """Prints each new phase and message until the job has ended."""
    started, shown = time.monotonic(), ("", "")
    progress.print(f"     FournosJob {key_of(job).name}")

    def ended(found: Obj) -> bool:
        nonlocal shown
        shown = _show(found, shown, time.monotonic() - started, progress)
        return shown[0] in TERMINAL

    await _until(client, job, ended)


async def _until(client: AsyncClient, job: Obj, done: Callable[[Obj], bool]) -> Obj:
    """Returns the job when `done` is true of it; all jobs of a namespace share one watch."""
    async with client.watches.follow(FOURNOS_JOB, job) as following:
        while (found := following.object) is not None:
            if done(found):
                return found
            await following.change()
    raise DevclusterError(f"FournosJob {key_of(job).name} was deleted before its end was recorded")


def _show(job: Obj, shown: tuple[str, str], elapsed: float, progress: Progress) -> tuple[str, str]:
    status = status_of(job)
    now = (status.get("phase") or "", status.get("message") or "")
    if now != shown:
        cluster = f" on {status['cluster']}" if status.get("cluster") else ""
        progress.print(f"     {elapsed:5.1f} s  {now[0]:<10}{cluster}  {now[1]}")
    return now
