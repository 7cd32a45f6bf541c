"""A run that goes on outweighs the status: a phase that another writer has set ends no run and
gives no cluster away.

The finalizer stands while a run is live, and this operator takes it off only after it has declared how the
run ended.  So where the finalizer stands and a run goes on, a phase without a run is not this operator's, or
the view of the job is an old one: then the write that corrects it is refused.
"""

from __future__ import annotations

from typing import Final

from fournos.jobs import names
from fournos.jobs.context import Context, run_ended
from fournos.jobs.kinds import PIPELINE_RUN
from fournos.kube.resource import Obj, is_terminating, key_of, uid_of
from fournos.runtime.decision import Decision, LiveGet, Present

_DIGITS: Final = 6
"""Of an attempt's number."""


def disbelieve(ctx: Context) -> Decision | None:
    """The status as the run says it must be; None: nothing contradicts it."""
    run = _contradicting(ctx)
    if run is None:
        return None
    answer = ctx.facts.require(LiveGet(PIPELINE_RUN, key_of(run)))
    if not isinstance(answer, Present) or uid_of(answer.value) != uid_of(run):
        return None
    if run_ended(answer.value) or is_terminating(answer.value):
        return None
    name, number = run["metadata"]["name"], _number(ctx, run)
    claimed, attempt = ctx.draft.phase or "new", ctx.draft.attempt
    ctx.draft.restore_attempt(number, run=name, cluster=_cluster(answer.value))
    if ctx.draft.phase not in names.HOLDING:
        ctx.draft.enter("Running", f"Pipeline running: {name}")
    text = f"PipelineRun {name} goes on, and the status said {claimed} (attempt {attempt}): it was corrected"
    ctx.draft.event("StatusCorrected", text, warning=True)
    return ctx.decision()


def _contradicting(ctx: Context) -> Obj | None:
    if not ctx.holds_finalizer:
        return None
    live = [run for run in ctx.observed.runs if not run_ended(run) and not is_terminating(run)]
    ours = [run for run in live if run["metadata"]["name"] in _names(ctx, _number(ctx, run))]
    if ctx.draft.phase in names.HOLDING and any(run["metadata"]["name"] == ctx.run_name for run in ours):
        return None
    return ours[0] if ours else None


def _number(ctx: Context, run: Obj) -> int:
    """Of the attempt; 0: it is none of this operator's.  The published operator's runs have no number."""
    text = str((run["metadata"].get("labels") or {}).get(names.ATTEMPT_LABEL) or "")
    if not text and run["metadata"]["name"] == ctx.name:
        return 1
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0


def _names(ctx: Context, number: int) -> tuple[str, ...]:
    return names.attempt_names(ctx.name, number, uid_of(ctx.job)) if number else ()


def _cluster(run: Obj) -> str:
    annotations = run["metadata"].get("annotations") or {}
    return str(annotations.get(names.CLUSTER_ANNOTATION) or names.CLUSTERLESS)
