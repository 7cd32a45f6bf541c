"""Nomination of workers: a copy of the Workload on each nominated worker; the first admitted copy wins.

Claim before make: the nominated workers are written to the status before a winner (Kueue's rule for
clusterName), and the winner before the job's copy is created.  There is never more than one winner.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from fournos.engine.api.conditions import is_true
from fournos.engine.kube.resource import Obj, key_of, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.decision import Decision, Patch
from fournos.systems.multikueue.build import remote_workload
from fournos.systems.multikueue.observe import Remote
from fournos.systems.multikueue.remote import create
from fournos.systems.multikueue.status import Context, since
from fournos.systems.multikueue.withdraw import Withdrawal, clear

_CURABLE = frozenset({"NotFoundError", "ForbiddenError"})
"""Errors that an administrator can correct: a missing namespace or permission on the worker.

A short interruption of the connection is not reported.
"""


def nominate(ctx: Context, left: Sequence[Remote] = ()) -> Decision:
    """Chooses the winner, or nominates workers and creates copies of the Workload there.

    `left` are workers with objects of an earlier attempt, whose deletion has already
    started.  They are not nominated.
    """
    listed = [remote for remote in ctx.observed.remotes if remote.listed and remote not in left]
    fit = [remote for remote in listed if remote.usable and not ctx.refused(remote)]
    winner = _winner(ctx, fit)
    if winner is not None:
        ctx.draft.claim(winner.name)
        ctx.draft.check("Pending", f'"{winner.name}" has admitted it; the job is on its way there')
        return ctx.gathered()
    if not fit:
        return _no_worker(ctx, listed, left)
    for remote in ctx.observed.remotes:
        if remote in left:
            continue
        if remote not in fit:
            clear(ctx, remote, Withdrawal(hard=True))
        elif not remote.busy:
            _nominate(ctx, remote)
    chosen = tuple(remote.name for remote in fit)
    ctx.draft.claim(None, chosen)
    ctx.draft.check(
        "Pending",
        "; ".join([f"waits for quota on {_quoted(chosen)}", *_curable_errors(fit), *map(leftover, left)]),
    )
    return ctx.gathered()


def _winner(ctx: Context, fit: list[Remote]) -> Remote | None:
    """Returns the worker with the earliest admission, of those whose nomination is in the status.

    Returns None if there is no such worker.

    Admission times are whole seconds.  A hash of the Workload's UID and the worker's name breaks ties, which
    spreads the load.  A checksum would not: those of names that differ in one digit depend on each other, and
    one of three workers would win half of the Workloads.
    """
    uid = uid_of(ctx.workload)
    admitted = [
        (since(workload, "Admitted"), sha256(f"{uid}/{remote.name}".encode()).digest(), remote.name, remote)
        for remote in fit
        if remote.name in ctx.draft.nominated
        and (workload := ctx.current(remote)) is not None
        and runs(workload)
    ]
    return min(admitted, key=lambda one: one[:3])[3] if admitted else None


def runs(workload: Obj) -> bool:
    """Returns True if a Workload is admitted, active and not evicted."""
    return (
        is_true(workload, "Admitted")
        and not is_true(workload, "Evicted")
        and workload["spec"].get("active", True) is not False
    )


def _curable_errors(remotes: list[Remote]) -> list[str]:
    """Returns the errors of nominated workers that an administrator has to correct there."""
    return [
        f'"{one.name}" does not take it yet: {one.failure.message}'
        for one in remotes
        if one.failure is not None and one.failure.error in _CURABLE
    ]


def leftover(remote: Remote) -> str:
    """Returns a description of the objects that an earlier attempt left on a worker, and why they stay."""
    copies = [job for _, job in remote.jobs] + ([remote.workload] if remote.workload is not None else [])
    kinds = [kind.kind for kind, _ in remote.jobs] + ([WORKLOAD.kind] if remote.workload is not None else [])
    texts = [
        f"{kind} {key_of(obj)}" + (" (its finalizers stay)" if obj["metadata"].get("finalizers") else "")
        for kind, obj in zip(kinds, copies, strict=True)
    ]
    why = f": {remote.failure.message}" if remote.failure is not None else ""
    return f'"{remote.name}" still has {", ".join(texts)} of an earlier attempt{why}'


def _no_worker(ctx: Context, listed: list[Remote], left: Sequence[Remote]) -> Decision:
    refusals = [
        f'"{remote.name}": {remote.failure.message}'
        for remote in listed
        if remote.failure and ctx.refused(remote)
    ]
    for remote in ctx.observed.remotes:
        if remote not in left:
            clear(ctx, remote, Withdrawal(hard=True))
    ctx.draft.claim(None)
    if refusals and len(refusals) == len(listed) and not left:
        ctx.draft.check("Rejected", f"No worker can take it: {'; '.join(refusals)}")
    elif listed or left:
        unusable = [remote for remote in listed if not ctx.refused(remote)]
        reasons = refusals + [
            f'"{remote.name}": {remote.unusable_reason or "not connected yet"}' for remote in unusable
        ]
        reasons += map(leftover, left)
        ctx.draft.check("Pending", f"No worker can be used: {'; '.join(reasons)}")
    else:
        ctx.draft.check(
            "Pending", "The AdmissionCheck's MultiKueueConfig names no cluster, or does not exist"
        )
    return ctx.gathered()


def _nominate(ctx: Context, remote: Remote) -> None:
    twin = ctx.current(remote)
    if twin is not None:
        keep_priority(ctx, remote, twin)
    elif remote.workload is None:
        body = remote_workload(
            ctx.workload, worker=remote.name, origin=ctx.settings.origin, attempt=ctx.attempt
        )
        ctx.send(remote, create(WORKLOAD, body))


def keep_priority(ctx: Context, remote: Remote, twin: Obj) -> None:
    """Copies the Workload's priority to its remote copy.

    Only the priority may change while it is queued or runs.
    """
    fields = ("priority", "priorityClassRef")
    here = {name: ctx.workload["spec"].get(name) for name in fields}
    if here == {name: twin["spec"].get(name) for name in fields} or remote.busy:
        return
    # resourceVersion is a precondition: the priority is compared with exactly this version.
    body = {"metadata": {"resourceVersion": twin["metadata"]["resourceVersion"]}, "spec": here}
    ctx.send(remote, Patch(WORKLOAD, key_of(twin), body))


def _quoted(found: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in found)
