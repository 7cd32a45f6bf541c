"""Measures the operator with many live jobs, and many schedules, that need no action.

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
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from bench.executors import Executors
from bench.operator import Operator, operator
from bench.result import Result
from bench.rig import NAMESPACE, QUEUE, Rig, job, new_rig
from bench.tasks import limited, until
from dev import resources
from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE, PIPELINE_RUN
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import ServerError
from fournos.engine.kube.kinds import JOB, SECRET
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, WORKLOAD
from fournos.systems.jobs import names

SECONDS = 60.0
RUNNING_SHARE = 10
"""One job in this number is Running; the others are pending."""
_CLUSTER = "bench-1"
_AT_ONCE = 24
"""As many requests as the API server takes well."""
_PHASE_LIMIT = 60.0
_QUIET = 5.0
_QUIET_WITHIN = 300.0
_SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink")
_RUNNING, PENDING = "running-0", "pending-0"


@dataclass(frozen=True, slots=True)
class Idle(Result):
    """The result of the measurement; times in seconds, memory in bytes."""

    jobs: int
    running: int
    schedules: int
    ready_after: float
    """From the start of the process until the caches have synchronized."""
    quiet_after: float
    """From the start of the process to the last request or reconcile."""
    requests_to_quiet: int
    seconds: float
    """The length of the measured idle time."""
    requests: int
    """Requests in the idle time, without those for the lease and watches."""
    cpu_percent: float
    rss: int
    peak: int


async def measure(
    name: str,
    jobs: int,
    *,
    schedules: int,
    seconds: float,
    directory: Path,
    profile: Path | None,
    keep: bool,
) -> Idle:
    """Measures so many jobs and schedules on a new cluster `name`, for `seconds` of idle time."""
    running = max(1, jobs // RUNNING_SHARE)
    crd = resources.load("deploy/crd/fournosschedules.yaml")
    async with new_rig(name, quotas={_CLUSTER: 1}, keep=keep, extra=crd) as rig:
        await seed(rig, jobs, running, directory)
        await limited(_AT_ONCE, (partial(_schedule, rig.client, number) for number in range(schedules)))
        kubeconfig = rig.cluster.kubeconfig_path
        started = time.perf_counter()
        log = directory / "operator.log"
        async with operator(kubeconfig, log, enable="jobs,schedules", profile=profile) as observed:
            quiet_after = await _quiet(observed, started)
            before = await observed.usage()
            begun = time.perf_counter()
            await asyncio.sleep(seconds)
            after = await observed.usage()
            took = time.perf_counter() - begun
            lists = sum(n for (_, verb, _), n in before.requests.items() if verb == "list")
            return Idle(
                jobs=jobs,
                running=running,
                schedules=schedules,
                ready_after=observed.ready_after,
                quiet_after=quiet_after,
                requests_to_quiet=before.calls() - lists,
                seconds=took,
                requests=after.calls() - before.calls(),
                cpu_percent=(after.cpu - before.cpu) / took * 100,
                rss=after.rss,
                peak=after.peak,
            )


async def _quiet(observed: Operator, started: float) -> float:
    """Waits until the operator has sent no request and reconciled nothing for a while.

    Returns the seconds from `started` to its last activity.  Raises RuntimeError if it does not become quiet.
    """
    last, since = None, time.perf_counter()
    while time.perf_counter() - started < _QUIET_WITHIN:
        usage = await observed.usage()
        seen = (usage.calls(), usage.passes)
        now = time.perf_counter()
        if seen != last:
            last, since = seen, now
        elif now - since >= _QUIET and usage.passes:
            return since - started
        await asyncio.sleep(0.25)
    raise RuntimeError(f"the operator is still busy after {_QUIET_WITHIN:g} s:\n{observed.tail()}")


# --- the idle jobs --------------------------------------------------------------------------------------


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
    async with asyncio.timeout(_QUIET_WITHIN):
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


async def _schedule(client: Client, number: int) -> None:
    """Creates a schedule whose next time is a night away, each at another minute."""
    expression = f"{number % 60} {(datetime.now(UTC).hour + 12 + number // 60 % 6) % 24} * * *"
    template = {"spec": job("unused")["spec"]}
    spec = {"schedules": [expression], "timeZone": "Etc/UTC", "jobTemplate": template}
    body = {
        "apiVersion": FOURNOS_SCHEDULE.api_version,
        "kind": FOURNOS_SCHEDULE.kind,
        "metadata": {"name": f"nightly-{number}", "namespace": NAMESPACE},
        "spec": spec,
    }
    await client.create(FOURNOS_SCHEDULE, body)


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
