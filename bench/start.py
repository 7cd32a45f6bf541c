"""Measures the start of an operator beside many live jobs: until its first decision, and its memory.

The operator takes two jobs to a stable state: one Running, one pending in a full queue.  After the operator
is stopped, these jobs and their dependents are copied for the other jobs, with the status that the operator,
Kueue and Tekton wrote.  Then a new operator starts and is measured.
"""

from __future__ import annotations

import asyncio
import copy
import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench.executors import Executors
from bench.machine import limited, until
from bench.operator import operator
from bench.report import Result
from bench.rig import NAMESPACE, QUEUE, Rig, job, new_rig
from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import ServerError
from fournos.engine.kube.resource import JOB, SECRET, Key, Obj, Resource
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, WORKLOAD
from fournos.systems.jobs import names

RUNNING_SHARE: Final = 10
"""One job in this number is Running; the others are pending."""
_CLUSTER: Final = "bench-1"
_AT_ONCE: Final = 24
"""As many requests as the API server takes well."""
_PHASE_LIMIT: Final = 60.0
_CAUGHT_UP_WITHIN: Final = 300.0
_SERVER_FIELDS: Final = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "generation",
    "selfLink",
)
_RUNNING, PENDING = "running-0", "pending-0"
_LIMIT: Final = 120.0
_DECIDED: Final = {"admitted", "run", "running"}
"""Any of these shows the decision: a short phase may not appear in the watch."""


@dataclass(frozen=True, slots=True)
class Started(Result):
    """Times in seconds from the start of the process, memory in bytes."""

    jobs: int
    ready_after: float
    """Until the caches are complete."""
    decided_after: float
    """Until a job that Kueue admitted meanwhile has its next phase."""
    cpu: float
    """CPU seconds until then."""
    peak: int


async def measure(name: str, *, jobs: int, directory: Path, keep: bool) -> Started:
    """Starts the operator beside `jobs` jobs on a new cluster `name`.  Raises TimeoutError."""
    async with new_rig(name, quotas={_CLUSTER: 1}, keep=keep) as rig:
        await seed(rig, jobs, max(1, jobs // RUNNING_SHARE), directory)
        executors = Executors(rig.client, finish_runs=False)
        async with executors.watching():
            begun = time.perf_counter()
            async with operator(rig.cluster.kubeconfig_path, directory / "operator.log") as running:
                async with asyncio.timeout(_LIMIT):
                    await until(lambda: not _DECIDED.isdisjoint(executors.times.get(PENDING, {})), every=0.01)
                usage = await running.usage()
    decided = min(at for event, at in executors.times[PENDING].items() if event in _DECIDED) - begun
    return Started(jobs, running.ready_after, decided, usage.cpu, usage.peak)


async def seed(rig: Rig, jobs: int, running: int, directory: Path) -> None:
    client = rig.client
    async with (
        operator(rig.cluster.kubeconfig_path, directory / "seed.log"),
        Executors(client, finish_runs=False).watching() as executors,
    ):
        for name, phase in ((_RUNNING, "Running"), (PENDING, "Pending")):
            await client.create(FOURNOS_JOB, job(name))
            await _reaches(executors, name, phase)
        await asyncio.sleep(3.0)  # until Kueue's message is in the status of the pending job
    live = await _everything(client, _RUNNING, run=True)
    waiting = await _everything(client, PENDING, run=False)
    await _raise_quota(client, running)
    await _admitted(client, PENDING)  # first in the queue; the operator will start it
    await _copies(client, live, [f"running-{n}" for n in range(1, running - 1)])
    await _copies(client, waiting, [f"pending-{n}" for n in range(1, jobs - running + 1)])
    await _caught_up(client)


async def _reaches(executors: Executors, name: str, phase: str) -> None:
    async with asyncio.timeout(_PHASE_LIMIT):
        await until(lambda: executors.phases.get(name) == phase)


async def _everything(client: Client, name: str, *, run: bool) -> list[tuple[Resource, Obj]]:
    """Returns the job and its dependents, the job first."""
    wanted = [(FOURNOS_JOB, name), (WORKLOAD, name), (JOB, names.resolve_job_name(name))]
    if run:
        wanted += [(SECRET, names.kubeconfig_copy_name(name)), (PIPELINE_RUN, name)]
    return [(resource, await client.get(resource, Key(NAMESPACE, key))) for resource, key in wanted]


async def _raise_quota(client: Client, slots: int) -> None:
    queue = await client.get(CLUSTER_QUEUE, Key("", QUEUE))
    groups = copy.deepcopy(queue["spec"]["resourceGroups"])
    for quota in groups[0]["flavors"][0]["resources"]:
        if quota["name"] == names.SLOT_RESOURCE:
            quota["nominalQuota"] = str(slots)
    await client.patch(CLUSTER_QUEUE, Key("", QUEUE), {"spec": {"resourceGroups": groups}})


async def _admitted(client: Client, name: str) -> None:
    async with asyncio.timeout(_PHASE_LIMIT):
        while not is_true(await client.get(WORKLOAD, Key(NAMESPACE, name)), "Admitted"):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def _caught_up(client: Client) -> None:
    """Waits until the API server serves lists again: its watch cache lags behind after so many writes."""
    async with asyncio.timeout(_CAUGHT_UP_WITHIN):
        while True:
            try:
                for resource in (FOURNOS_JOB, WORKLOAD, JOB, PIPELINE_RUN):
                    await client.list(resource, namespace=NAMESPACE, keep=lambda _: {})
                return
            except ServerError:
                await asyncio.sleep(1.0)


async def _copies(client: Client, originals: list[tuple[Resource, Obj]], job_names: list[str]) -> None:
    """Creates a copy of all originals under each of the names, with their status.

    Kueue accepts a Workload whose status is already written and leaves it unchanged.  Kueue itself would
    admit only about ten Workloads per second.
    """

    async def copy_all(name: str) -> None:
        owner = ""
        for resource, original in originals:
            made = await _copy(client, resource, original, name, owner)
            owner = owner or str(made["metadata"]["uid"])

    await limited(_AT_ONCE, (partial(copy_all, name) for name in job_names))


async def _copy(client: Client, resource: Resource, original: Obj, name: str, owner: str) -> Obj:
    old = _job_name(original)
    body = json.loads(json.dumps(original).replace(old, name))
    status = body.pop("status", None)
    for field in _SERVER_FIELDS:
        body["metadata"].pop(field, None)
    for reference in body["metadata"].get("ownerReferences") or ():
        reference["uid"] = owner
    if resource is JOB:
        _without_selector(body)
    made = await client.create(resource, body)
    if status:
        key = Key(NAMESPACE, made["metadata"]["name"])
        await client.patch(resource, key, {"status": status}, subresource="status")
    return made


def _without_selector(job: dict[str, Any]) -> None:
    """Removes the selector and labels that the API server adds to a Job.

    They contain the Job's UID, and the API server refuses a new Job with the UID of another.
    """
    job["spec"].pop("selector", None)
    labels = job["spec"]["template"]["metadata"]["labels"]
    for label in (*labels,):
        if label.rpartition("/")[2] in ("controller-uid", "job-name") and label != names.JOB_NAME_LABEL:
            del labels[label]


def _job_name(original: Obj) -> str:
    """Returns the name of the FournosJob that an object belongs to."""
    labels = original["metadata"].get("labels") or {}
    return str(labels.get(names.JOB_NAME_LABEL) or original["metadata"]["name"])
