"""Reruns that confirm a suspected regression: a job's results are measured again before anybody is alerted.

The history compares the results of an ended job and writes `status.suspectedAt`; it creates nothing.  The
operator creates the reruns, so that they do not depend on a database: once, with the owner, the namespace and
the hardware of the job.  A rerun has the label fournos.dev/confirms, which only the operator may set, and
asks for no reruns itself.
"""

from __future__ import annotations

from typing import Any

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import TERMINAL, Phase
from fournos.engine.kube.resource import Obj, uid_of
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.runtime.decision import Decision
from fournos.engine.runtime.steps import Create
from fournos.systems.jobs import names
from fournos.systems.jobs.context import Context

_NOT_COPIED = frozenset({"shutdown", "suspend", "managedBy", "confirm", "priority"})
_KUEUE = "kueue.x-k8s.io/"


def repeats(ctx: Context) -> int:
    """Returns how many reruns a suspected regression of the job is worth; 0 for none.

    A rerun has none, nor has a job of another cluster: its manager cluster has the history.
    """
    labels = ctx.job["metadata"].get("labels") or {}
    if (
        not ctx.settings.history_enabled
        or names.CONFIRMS_LABEL in labels
        or ctx.spec.lock_only
        or prebuilt_name(ctx.job)
    ):
        return 0
    return ctx.settings.confirm_repeats if ctx.spec.confirm is None else ctx.spec.confirm.repeats


def expect(ctx: Context, phase: str) -> None:
    """Adds the condition to the status that declares the end: the history compares only jobs that have it."""
    if phase == Phase.SUCCEEDED and repeats(ctx):
        text = "The history has not compared the results with earlier runs yet"
        ctx.draft.condition(names.RERUNS_CREATED, "Unknown", "Pending", text)


def derive(ctx: Context) -> None:
    """Ends the wait in the condition once the job is recorded and nothing is suspected.

    As with the condition Archived, it is written with the next change of the status.
    """
    compared = ctx.draft.phase in TERMINAL and ctx.draft.archived_at is not None
    if compared and ctx.draft.suspected_at is None and ctx.draft.is_unknown(names.RERUNS_CREATED):
        text = "The history suspects no regression in the results"
        ctx.draft.condition(names.RERUNS_CREATED, "False", "NotSuspected", text)


def rerun(ctx: Context) -> Decision | None:
    """Creates the reruns of a job whose results are suspected to be a regression; None if there are none.

    They are created once: the condition is true from then on, whatever becomes of them.
    """
    if ctx.draft.suspected_at is None or not ctx.draft.is_unknown(names.RERUNS_CREATED):
        return None
    failure = ctx.facts.failure
    if failure and isinstance(failure.step, Create) and failure.step.resource == FOURNOS_JOB:
        text = f"The reruns cannot be created: {failure.message}"
        return _ended(ctx, "False", failure.error, text)
    if ctx.job["metadata"].get("generation") != ctx.draft.observed_generation:
        # The owner, say, may not be the one whose results are suspected.
        return _ended(ctx, "False", "SpecChanged", "No rerun is made: the spec was changed after the end")
    made = [_rerun(ctx, number) for number in range(1, repeats(ctx) + 1)]
    listed = [manifest["metadata"]["name"] for manifest in made]
    ctx.draft.put(reruns=listed)
    text = f"A suspected regression is measured again by {', '.join(listed)}"
    steps = tuple(Create(FOURNOS_JOB, manifest, own_label=names.CONFIRMS_LABEL) for manifest in made)
    return _ended(ctx, "True", "Created", text, steps) if made else None


def _ended(ctx: Context, status: str, reason: str, text: str, steps: tuple[Create, ...] = ()) -> Decision:
    ctx.draft.condition(names.RERUNS_CREATED, status, reason, text)
    ctx.draft.event(f"Reruns{reason}", text, warning=status == "False")
    return ctx.decision(steps)


def _rerun(ctx: Context, number: int) -> Obj:
    """Returns a rerun: the same spec on the same cluster and hardware, without its priority."""
    meta = ctx.job["metadata"]
    spec: dict[str, Any] = {
        field: value for field, value in ctx.job["spec"].items() if field not in _NOT_COPIED
    }
    spec["confirm"] = {"repeats": 0}
    if ctx.settings.confirm_priority:
        spec["priority"] = ctx.settings.confirm_priority
    if not ctx.spec.clusterless and ctx.draft.cluster:
        spec["cluster"] = ctx.draft.cluster
    if hardware := ctx.draft.resolved_hardware:
        spec["hardware"] = dict(hardware)
    # Kueue's labels name the job's own queue, priority and Workload.
    labels = {name: value for name, value in (meta.get("labels") or {}).items() if _KUEUE not in name}
    return {
        "apiVersion": FOURNOS_JOB.api_version,
        "kind": FOURNOS_JOB.kind,
        "metadata": {
            "name": names.rerun_name(meta["name"], uid_of(ctx.job), number),
            "namespace": ctx.namespace,
            "labels": {**labels, names.CONFIRMS_LABEL: uid_of(ctx.job)},
            "annotations": {names.RERUN_OF_ANNOTATION: meta["name"]},
        },
        "spec": spec,
    }
