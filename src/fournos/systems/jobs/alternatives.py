"""Which of the GPUs that a job accepts its Workload asks for: the first that are free, by preference.

A GPU type is a resource and a cluster is a flavor, so one Workload cannot ask Kueue for one of two types.
While the job waits, its Workload is rewritten instead, and keeps its place in the queue.  The Workload is the
only record of the choice: the job's status names the GPUs when they are admitted.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from fournos.api.fournosjob_values import Gpus
from fournos.engine.api.conditions import is_true
from fournos.engine.api.values import parse_quantity
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.kinds import LOCAL_QUEUE
from fournos.engine.queueing.quotas import quotas_of, reserved
from fournos.engine.runtime.decision import LiveGet, Present
from fournos.systems.jobs.build import slots_and_gpus
from fournos.systems.jobs.context import Context, Flavors, FreeQuota

CHOOSING_AT_MOST: Final = 50
"""The maximum number of jobs, the oldest first, that a change of a ClusterQueue lets choose again."""


def gpus_to_ask_for(ctx: Context) -> Gpus | None:
    """Returns the first GPUs that are free while the job waits; if none are, those that it asks for now.

    The job's LocalQueue is read live, and only if GPUs of the job are free in any ClusterQueue.
    """
    if len(ctx.choices) < 2 or not _may_choose(ctx):
        return ctx.hardware
    anywhere = _added(ctx.observed.free_quota)
    if not any(_are_free(ctx, gpus, anywhere) for gpus in ctx.choices):
        return ctx.hardware
    free = free_to(_cluster_queue(ctx), ctx.observed.free_quota)
    return next((gpus for gpus in ctx.choices if _are_free(ctx, gpus, free)), ctx.hardware)


def _may_choose(ctx: Context) -> bool:
    """Returns False where another request would cost the job its quota or its place in the queue."""
    if ctx.workload is not None and is_true(ctx.workload, "QuotaReserved"):
        return False  # also while admission checks last
    if ctx.spec.priority and ctx.observed.priority_value is None:
        return False  # a Workload cannot be rewritten without the value of its class
    return not prebuilt_name(ctx.job)  # it ends with a job that asks for something else


def _cluster_queue(ctx: Context) -> str:
    queue = LiveGet(LOCAL_QUEUE, Key(ctx.namespace, ctx.settings.kueue_local_queue_name))
    answer = ctx.facts.require(queue)
    return str(answer.value["spec"].get("clusterQueue") or "") if isinstance(answer, Present) else ""


def _are_free(ctx: Context, gpus: Gpus, free: Flavors) -> bool:
    """Returns True if one flavor has room for all that the job asks for."""
    requests = slots_and_gpus(ctx.spec, gpus, ctx.settings.gpu_resource_prefix)
    return any(
        all(quotas.get(resource, 0) >= parse_quantity(amount) for resource, amount in requests.items())
        for flavor, quotas in free.items()
        if ctx.spec.cluster in (None, "", flavor)
    )


def free_quota(cluster_queue: Obj) -> Flavors:
    """Returns what a ClusterQueue has left; nothing of one that cannot be read."""
    free: dict[str, dict[str, Decimal]] = {}
    try:
        used = reserved(cluster_queue)
        for (flavor, resource), quota in quotas_of(cluster_queue):
            unused = parse_quantity(quota["nominalQuota"]) - used.get((flavor, resource), Decimal(0))
            free.setdefault(flavor, {})[resource] = unused
    except (KeyError, ValueError):  # of a stranger: it must not stop the jobs of all queues
        return {}
    return free


def free_to(cluster_queue: str, quotas: Iterable[FreeQuota]) -> Flavors:
    """Returns what is free to a ClusterQueue: its own quota, and all that others of its cohort have left."""
    quotas = tuple(quotas)
    own = next((quota for quota in quotas if quota.cluster_queue == cluster_queue), None)
    if own is None:
        return {}
    return _added(quota for quota in quotas if quota is own or (own.cohort and quota.cohort == own.cohort))


def _added(quotas: Iterable[FreeQuota]) -> Flavors:
    free: dict[str, dict[str, Decimal]] = {}
    for quota in quotas:
        for flavor, resources in quota.flavors.items():
            together = free.setdefault(flavor, {})
            for resource, amount in resources.items():
                together[resource] = together.get(resource, Decimal(0)) + amount
    return free
