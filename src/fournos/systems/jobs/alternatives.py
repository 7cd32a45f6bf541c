"""Which of the GPUs that a job accepts its Workload asks for: the first that are free, by preference.

A GPU type is a resource and a cluster is a flavor, so one Workload cannot ask Kueue for one of two types.
While the job waits, its Workload is rewritten instead, and keeps its place in the queue.  The Workload is the
only record of the choice: the job's status names the GPUs when they are admitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from fournos.api.fournosjob_values import Gpus
from fournos.engine.api.conditions import is_true
from fournos.engine.api.quantities import parse_quantity
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.systems.jobs.build import slots_and_gpus
from fournos.systems.jobs.context import Context

Free = Mapping[str, Mapping[str, Decimal]]
"""Flavor → resource → quota that no Workload has reserved."""


def gpus_to_ask_for(ctx: Context) -> Gpus | None:
    """Returns the first GPUs that are free while the job waits; if none are, those that it asks for now."""
    # Reserved quota is kept while admission checks last: another request would give it back.
    waits = ctx.workload is None or not is_true(ctx.workload, "QuotaReserved")
    if len(ctx.choices) < 2 or not waits or prebuilt_name(ctx.job):
        return ctx.hardware
    return next((gpus for gpus in ctx.choices if _are_free(ctx, gpus)), ctx.hardware)


def _are_free(ctx: Context, gpus: Gpus) -> bool:
    """Returns True if one flavor has room for all that the job asks for; cohorts lend all that they have."""
    requests = slots_and_gpus(ctx.spec, gpus, ctx.settings.gpu_resource_prefix)
    return any(
        all(free.get(resource, 0) >= parse_quantity(amount) for resource, amount in requests.items())
        for flavors in ctx.observed.free_quota
        for flavor, free in flavors.items()
        if ctx.spec.cluster in (None, "", flavor)
    )


def free_quota(cluster_queue: Obj) -> Free:
    """Returns what a ClusterQueue has left; negative where it has borrowed."""
    free: dict[str, dict[str, Decimal]] = {}
    for group in (cluster_queue.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            quotas = free.setdefault(flavor["name"], {})
            quotas |= {quota["name"]: parse_quantity(quota["nominalQuota"]) for quota in flavor["resources"]}
    for flavor in (cluster_queue.get("status") or {}).get("flavorsReservation") or ():
        for usage in flavor.get("resources") or ():
            quotas = free.get(flavor["name"], {})
            if usage["name"] in quotas:
                quotas[usage["name"]] -= parse_quantity(usage.get("total") or 0)
    return free


def lent(queues: Iterable[tuple[str, Free]]) -> tuple[Free, ...]:
    """Adds up the free quota of the ClusterQueues of each cohort.

    `queues` are pairs of cohort and free quota.  A ClusterQueue without a cohort stands alone.
    """
    cohorts: dict[str, dict[str, dict[str, Decimal]]] = {}
    alone: list[Free] = []
    for cohort, free in queues:
        if not cohort:
            alone.append(free)
            continue
        for flavor, quotas in free.items():
            together = cohorts.setdefault(cohort, {}).setdefault(flavor, {})
            for resource, amount in quotas.items():
                together[resource] = together.get(resource, Decimal(0)) + amount
    return (*alone, *cohorts.values())
