"""The worker's status of a job, written where its owner looks: on the manager."""

from __future__ import annotations

from fournos.kube.patches import merge_patch
from fournos.kube.resource import Obj, key_of, uid_of
from fournos.multikueue.build import mirrored_status
from fournos.multikueue.context import Context
from fournos.runtime.steps import Patch


def sync(ctx: Context, mirror: Obj | None) -> None:
    """Nothing while the worker has said nothing: an empty status tells less than an old one."""
    job, kind = ctx.observed.job, ctx.observed.kind
    if job is None or kind is None or mirror is None or not mirror.get("status"):
        return
    changes = merge_patch(job.get("status") or {}, mirrored_status(job, mirror))
    if changes:
        body = {"metadata": {"uid": uid_of(job)}, "status": changes}
        ctx.steps.append(Patch(kind, key_of(job), body, subresource="status"))
