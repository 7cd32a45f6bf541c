"""The hand-over of an ended job to the history: its condition, and how long the deletion waits for it.

The recorder of the history writes `status.archivedAt` and nothing else: with two writers of one list of
conditions each would overwrite the other.  The operator derives the condition from it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from fournos.api.phase import TERMINAL
from fournos.engine.runtime.decision import Decision
from fournos.systems.jobs.context import Context
from fournos.systems.jobs.names import ARCHIVED


def expect(ctx: Context) -> None:
    """Adds the condition to the status that declares the end: the history has yet to record it."""
    if ctx.settings.history_enabled:
        text = "The history has not recorded the end of the job yet; status.archivedAt is set when it has"
        ctx.draft.condition(ARCHIVED, "False", "Pending", text)


def derive(ctx: Context) -> None:
    """Sets the condition from `status.archivedAt`.

    A write of its own is not worth the request: the condition is written with the next change of the status.
    """
    enabled = ctx.settings.history_enabled and ctx.draft.phase in TERMINAL
    if enabled and ctx.draft.archived_at is not None and not ctx.draft.is_true(ARCHIVED):
        ctx.draft.condition(ARCHIVED, "True", "Recorded", "The history has recorded the end of the job")


def wait(ctx: Context, expiry: datetime) -> Decision | None:
    """Delays the deletion until the job is archived, at most by the deadline; None if it may be deleted.

    A job that is deleted without being archived shows that in its condition and an Event before.
    """
    if not ctx.settings.history_enabled or ctx.draft.archived_at is not None:
        return None
    deadline = expiry + timedelta(seconds=ctx.settings.archive_deadline_sec)
    if ctx.now < deadline:
        return Decision(wake_at=deadline)
    if ctx.draft.reason_of(ARCHIVED) == "DeadlineExceeded":
        return None
    waited = f"{ctx.settings.archive_deadline_sec:g} s"
    text = f"The history has not recorded the end of the job within {waited} after spec.ttl"
    ctx.draft.condition(ARCHIVED, "False", "DeadlineExceeded", text)
    ctx.draft.event("NotArchived", f"{text}; the job is deleted", warning=True)
    return ctx.decision()
