"""Resizes a MiniCluster within the hosts that the brokers are configured for and the quota that is held.

The Job's parallelism and completions change together. Kubernetes then adds the next indexes or removes the
highest ones. The preStop hook of a removed pod drains its rank; a pod that comes back undrains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fournos.engine.kube.resource import CONFIG_MAP, JOB, Obj, is_terminating, key_of
from fournos.engine.queueing.workload import QUEUE_NAME_LABEL
from fournos.engine.runtime.decision import Present
from fournos.engine.runtime.steps import Patch, Step
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.cluster import cluster_of
from fournos.systems.miniclusters.context import Context, index_of, terminal
from fournos.systems.miniclusters.entrypoint import quorum_text
from fournos.systems.miniclusters.observe import ELASTIC_ANNOTATION, QUORUM


@dataclass(frozen=True, slots=True)
class Resize:
    """The size that the Job should have."""

    size: int
    """The number of pods."""
    refused: str = ""
    """Why it is not the requested size; empty if it is."""


def counts(maximum: int, spec: Mapping[str, Any]) -> dict[str, int]:
    """Returns the Job's parallelism and completions for the size in the spec, limited to `maximum`."""
    size = max(1, min(int(spec.get("size", 1)), maximum))
    return {"parallelism": size, "completions": size}


def allowed(ctx: Context, job: Obj) -> Resize:
    """Returns the size that is allowed now, with the reason if it is not the requested one."""
    asked, now = int(ctx.spec.get("size", 1)), int(job["spec"].get("parallelism", 1))
    size = counts(ctx.draft.maximum, ctx.spec)["parallelism"]
    if size != now and _queued_by_itself(job) and not job["spec"].get("suspend"):
        # Kueue stops a Job whose size differs from the admitted size.
        return Resize(
            now,
            f"size stays {now}: the Job is queued by jobLabels, and Kueue would stop it; put the queue's "
            "name on the MiniCluster itself to resize it while it runs",
        )
    held = _held(ctx)
    if held is not None and size > max(held, now):
        return Resize(
            max(held, now),
            f"size stays {max(held, now)}: the quota of {ctx.draft.maximum - held} pods was given back "
            "when it shrank; suspend the MiniCluster to queue it for all of them again",
        )
    if asked > size:
        return Resize(size, f"size {asked} is more than the {ctx.draft.maximum} hosts that Flux began with")
    return Resize(size)


def _queued_by_itself(job: Obj) -> bool:
    meta = job["metadata"]
    elastic = (meta.get("annotations") or {}).get(ELASTIC_ANNOTATION) == "true"
    return bool((meta.get("labels") or {}).get(QUEUE_NAME_LABEL)) and not elastic


def _held(ctx: Context) -> int | None:
    """Returns for how many pods of the largest size quota is held; None without a Workload."""
    workload = ctx.workload
    if workload is None:
        return None
    given = {
        one["name"]: int(one["count"]) for one in (workload.get("status") or {}).get("reclaimablePods") or ()
    }
    return ctx.draft.maximum - given.get(names.MAIN_POD_SET, 0)


def quorum(ctx: Context, target: Resize) -> tuple[Step, ...]:
    """Returns the patch of the quorum.

    A lead broker that restarts waits for the current number of brokers, not for the number at the start.
    """
    config_map = ctx.part(CONFIG_MAP, names.entrypoint(ctx.name))
    if config_map is None or QUORUM not in config_map:
        return ()
    cluster = cluster_of(ctx.minicluster, ctx.settings)
    text = quorum_text(replace(cluster, spec=cluster.spec.model_copy(update={"size": target.size})))
    if config_map[QUORUM] == text:
        return ()
    return (Patch(CONFIG_MAP, key_of(config_map), {"data": {names.QUORUM_KEY: text}}),)


def steps(ctx: Context, job: Obj, target: Resize) -> tuple[Step, ...]:
    """Returns one patch of the Job if its size or deadline differs."""
    spec: dict[str, Any] = {}
    if int(job["spec"].get("parallelism", 1)) != target.size:
        spec |= {"parallelism": target.size, "completions": target.size}
    deadline = ctx.spec.get("deadlineSeconds")
    if deadline is not None and deadline != job["spec"].get("activeDeadlineSeconds"):
        spec["activeDeadlineSeconds"] = deadline
    if not spec or is_terminating(job):
        return ()
    # The precondition: the sizes must not overwrite a change that this pass has not seen.
    version = job["metadata"]["resourceVersion"]
    return (Patch(JOB, key_of(job), {"metadata": {"resourceVersion": version}, "spec": spec}),)


def leaving(ctx: Context, size: int) -> int:
    """Returns the number of pods beyond the size that still exist."""
    return sum(1 for pod in ctx.pods if not terminal(pod) and (index_of(pod) or 0) >= size)


def given_back(ctx: Context) -> int:
    """Returns the number of pods whose quota is no longer needed.

    These are the pods that a shrink removed, after a live read has confirmed that they are gone. Quota that
    was never used is kept, because the MiniCluster may grow into it.
    """
    job = ctx.job
    if job is None or ctx.workload is None or not ctx.settings.give_back or ctx.draft.ended:
        return 0
    size = int(job["spec"].get("parallelism", 1))
    if ctx.draft.size <= size or leaving(ctx, size):
        return 0
    if not isinstance(ctx.facts.require(ctx.pods_question), Present) or leaving(ctx, size):
        return 0
    return ctx.draft.maximum - size
