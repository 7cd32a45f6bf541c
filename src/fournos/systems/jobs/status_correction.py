"""Correction of a status that contradicts a live PipelineRun.

A phase that another writer has set neither ends a run nor releases a cluster.  The finalizer stays while
a run is live, and this operator removes it only after it has declared how the run ended.  If the
finalizer is present and a run is live, a phase without a run was therefore set by another writer, or the
cached job is stale.  In the second case the API server refuses the corrective write (409), because it
carries the observed resourceVersion.
"""

from __future__ import annotations

from typing import Final

from fournos.api.kinds import PIPELINE_RUN
from fournos.api.phase import HOLDING
from fournos.engine.kube.resource import Obj, is_terminating, key_of, uid_of
from fournos.engine.runtime.decision import Decision, LiveGet, Present
from fournos.systems.jobs import names
from fournos.systems.jobs.context import Context, run_ended

_DIGITS: Final = 6
"""The maximum number of digits in the attempt label."""


def corrected_status(ctx: Context) -> Decision | None:
    """Returns a decision that restores the status from the live run, or None if no run contradicts it."""
    run = _contradicting(ctx)
    if run is None:
        return None
    # A live read, because the cache may still show a run that has already ended or was replaced.
    answer = ctx.facts.require(LiveGet(PIPELINE_RUN, key_of(run)))
    if not isinstance(answer, Present) or uid_of(answer.value) != uid_of(run):
        return None
    if run_ended(answer.value) or is_terminating(answer.value):
        return None
    name, number = run["metadata"]["name"], _number(ctx, run)
    claimed, attempt = ctx.draft.phase or "new", ctx.draft.attempt
    ctx.draft.restore_attempt(number, run=name, cluster=_cluster(answer.value))
    if ctx.draft.phase not in HOLDING:
        ctx.draft.enter("Running", f"Pipeline running: {name}")
    text = f"PipelineRun {name} goes on, and the status said {claimed} (attempt {attempt}): it was corrected"
    ctx.draft.event("StatusCorrected", text, warning=True)
    return ctx.decision()


def _contradicting(ctx: Context) -> Obj | None:
    # Without the finalizer no run of this operator is live.
    if not ctx.holds_finalizer:
        return None
    live = [run for run in ctx.observed.runs if not run_ended(run) and not is_terminating(run)]
    owned = [run for run in live if run["metadata"]["name"] in _names(ctx, _number(ctx, run))]
    if ctx.draft.phase in HOLDING and any(run["metadata"]["name"] == ctx.run_name for run in owned):
        return None
    return owned[0] if owned else None


def _number(ctx: Context, run: Obj) -> int:
    """Returns the attempt's number, or 0 if the run is not one of this operator's.

    Runs of the published operator have no attempt label: a run with the job's name is attempt 1.
    """
    text = str((run["metadata"].get("labels") or {}).get(names.ATTEMPT_LABEL) or "")
    if not text and run["metadata"]["name"] == ctx.name:
        return 1
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0


def _names(ctx: Context, number: int) -> tuple[str, ...]:
    return names.attempt_names(ctx.name, number, uid_of(ctx.job)) if number else ()


def _cluster(run: Obj) -> str:
    annotations = run["metadata"].get("annotations") or {}
    return str(annotations.get(names.CLUSTER_ANNOTATION) or names.CLUSTERLESS)
