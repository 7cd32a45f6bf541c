"""Migration of jobs in progress from the published operator, which was built on kopf.

Its objects have our names and labels, but its status counts no attempts.  Only kopf removes kopf's finalizer,
which would therefore block the deletion of a job forever.
"""

from __future__ import annotations

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import HOLDING
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.runtime.decision import Decision
from fournos.engine.runtime.finalizer import switched
from fournos.engine.runtime.steps import Patch, Step
from fournos.systems.jobs import names
from fournos.systems.jobs.context import Context

_KOPF = "kopf.zalando.org/"


def take_over(ctx: Context) -> Decision | None:
    """Records the existing run as attempt 1 and replaces kopf's finalizer by ours.

    Returns None if the job is this operator's already.  A job that is being deleted takes no new finalizer:
    kopf's holds it until `finalizers_off`.
    """
    holding = ctx.draft.phase in HOLDING and ctx.draft.attempt == 0
    meta = ctx.job["metadata"]
    clean = _without_kopf(ctx.job)
    finalizers = clean["metadata"]["finalizers"]
    annotations = {name: None for name in meta.get("annotations") or () if name.startswith(_KOPF)}
    had_published = len(finalizers) < len(meta.get("finalizers") or ())
    if not holding and (ctx.deleting or not (had_published or annotations)):
        return None
    steps = []
    if not ctx.deleting and (had_published or annotations):
        # Our finalizer is added in the same write: the job must never be without one while its run is live.
        needs_own = names.FINALIZER in finalizers or (holding and not ctx.spec.lock_only)
        body = {**switched(clean, names.FINALIZER, on=needs_own), "annotations": annotations}
        steps.append(Patch(FOURNOS_JOB, key_of(ctx.job), {"metadata": body}))
    if holding:
        _claim(ctx)
        return ctx.decision(steps)
    return Decision(tuple(steps))


def finalizers_off(ctx: Context) -> tuple[Step, ...]:
    """Returns the step that lets a job go that is being deleted: without our finalizer and kopf's."""
    body = switched(_without_kopf(ctx.job), names.FINALIZER, on=False)
    if body["finalizers"] == (ctx.job["metadata"].get("finalizers") or None):
        return ()
    return (Patch(FOURNOS_JOB, key_of(ctx.job), {"metadata": body}),)


def _without_kopf(job: Obj) -> Obj:
    meta = job["metadata"]
    finalizers = [name for name in meta.get("finalizers") or () if not name.startswith(_KOPF)]
    return {**job, "metadata": {**meta, "finalizers": finalizers}}


def _claim(ctx: Context) -> None:
    # Workload and run have the job's name in the published operator, whether or not the cache shows them yet.
    workload = None if ctx.spec.clusterless else ctx.name
    ctx.draft.begin_attempt(
        cluster=ctx.draft.cluster, workload=workload, run=None if ctx.spec.lock_only else ctx.name
    )
    resolved: dict[str, object] = {"secretRefs": list(ctx.spec.secret_refs)}
    if ctx.hardware:
        resolved["hardware"] = ctx.hardware.to_json()
    ctx.draft.put(resolved=resolved)
