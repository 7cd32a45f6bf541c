"""A new attempt after an eviction, for objects that cannot be held again and opt in by annotation.

Claim before make: the attempt's name is written to the old object before the new one is created.  The new one
has the old one's UID as a label, so that it is created only once.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from fournos.engine.api.quantities import parse_count
from fournos.engine.kube.patches import joined, nested, without_null
from fournos.engine.kube.resource import Obj, key_of, uid_of
from fournos.engine.runtime.decision import Decision, EventRecord, LiveGet, Present, Unknown
from fournos.engine.runtime.steps import Create
from fournos.systems.frameworks import names
from fournos.systems.frameworks.context import Context

_AGAIN: Final = frozenset(
    {
        "Preempted",
        "PodsReadyTimeout",
        "AdmissionCheck",
        "ClusterQueueStopped",
        "LocalQueueStopped",
        "NodeFailures",
        "WorkloadDeleted",
    }
)
"""Eviction reasons for which Kueue itself would requeue a job; a deactivated job waits for a person."""
_STATE: Final = frozenset(
    {
        names.LAST_APPLIED,
        names.STOPPED_ANNOTATION,
        names.WARNING_ANNOTATION,
        names.NEXT_ATTEMPT_ANNOTATION,
        names.NEXT_MADE_ANNOTATION,
    }
)


def next_attempt(ctx: Context) -> Decision | None:
    """Claims or creates the next attempt; None if none is due.  Called when the Workload is finished."""
    if not _wanted(ctx):
        return None
    number = _number(ctx) + 1
    if number > ctx.max_attempts:
        return _given_up(ctx)
    claimed = ctx.annotations.get(names.NEXT_ATTEMPT_ANNOTATION)
    # Claim before make: after a restart the same name is used, so there is only one next attempt.
    if not claimed:
        name = attempt_name(_first(ctx), number)
        return Decision(steps=(ctx.annotate({names.NEXT_ATTEMPT_ANNOTATION: name}),))
    # A live read: the new object is built from the full current one, which the cache does not hold.
    answer = ctx.facts.require(LiveGet(ctx.framework.resource, ctx.key))
    if isinstance(answer, Unknown):
        return Decision(retry=True)
    if not isinstance(answer, Present) or uid_of(answer.value) != uid_of(ctx.obj):
        return None
    create = Create(
        ctx.framework.resource, _body(ctx, answer.value, claimed, number), own_label=names.PREDECESSOR_LABEL
    )
    made = ctx.annotate({names.NEXT_MADE_ANNOTATION: "true"})
    note = EventRecord("Normal", "Recreated", f"Attempt {number} of {_first(ctx)} is {claimed}")
    return Decision(steps=(create, made), events=(note,))


def taken(ctx: Context) -> Decision | None:
    """Claims another name if another owner has the claimed one; None if the failure is a different one."""
    failure = ctx.facts.failure
    if failure is None or failure.error != "ForeignObject" or not isinstance(failure.step, Create):
        return None
    if failure.step.resource != ctx.framework.resource:
        return None
    other = attempt_name(_first(ctx), _number(ctx) + 1, uid_of(ctx.obj))
    if failure.step.body["metadata"]["name"] == other:
        return None
    return Decision(steps=(ctx.annotate({names.NEXT_ATTEMPT_ANNOTATION: other}),), retry=True)


def attempt_name(first: str, number: int, uid: str = "") -> str:
    """Returns `first-rN`, with five digits of the UID's digest if that name is taken.

    At most 63 characters.
    """
    digest = hashlib.sha256(uid.encode()).hexdigest()[:5] if uid else ""
    suffix = f"-r{number}" + (f"-{digest}" if digest else "")
    return first[: names.NAME_MAX - len(suffix)].rstrip("-.") + suffix


def _wanted(ctx: Context) -> bool:
    reason = ctx.annotations.get(names.STOPPED_ANNOTATION, "").partition(":")[0]
    ended = ctx.job.finished()
    return (
        ctx.annotations.get(names.ON_EVICTION_ANNOTATION) == names.RECREATE
        and names.NEXT_MADE_ANNOTATION not in ctx.annotations
        and ended is not None
        and not ended.succeeded
        and reason in _AGAIN
        and not ctx.prebuilt  # the creator of the prebuilt Workload decides on another attempt
    )


def _given_up(ctx: Context) -> Decision:
    text = f"{_first(ctx)} was stopped in each of {ctx.max_attempts} attempts: no more are made"
    return Decision(
        steps=(ctx.annotate({names.NEXT_MADE_ANNOTATION: "never"}),),
        events=(EventRecord("Warning", "AttemptsExhausted", text),),
    )


def _number(ctx: Context) -> int:
    number = parse_count(ctx.annotations.get(names.ATTEMPT_ANNOTATION))
    return 1 if number is None else number


def _first(ctx: Context) -> str:
    return ctx.annotations.get(names.FIRST_ATTEMPT_ANNOTATION) or key_of(ctx.obj).name


def _body(ctx: Context, old: Obj, name: str, number: int) -> dict[str, Any]:
    """Returns the body of the next attempt: the old object as it was created, held for the queue."""
    meta, framework = old["metadata"], ctx.framework
    assert framework.stop is not None
    labels = {**(meta.get("labels") or {}), names.PREDECESSOR_LABEL: uid_of(old)}
    annotations = {
        key: value
        for key, value in (meta.get("annotations") or {}).items()
        if key not in _STATE and not key.startswith(framework.forget)
    }
    annotations |= {
        names.HELD_ANNOTATION: names.HELD_BY_QUEUE,
        names.ATTEMPT_ANNOTATION: str(number),
        names.FIRST_ATTEMPT_ANNOTATION: _first(ctx),
    }
    owners = [one for one in meta.get("ownerReferences") or () if not one.get("controller")]
    body = {
        "apiVersion": framework.resource.api_version,
        "kind": framework.resource.kind,
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": annotations,
            **({"ownerReferences": owners} if owners else {}),
        },
    }
    rest = {
        key: value for key, value in old.items() if key not in ("metadata", "status", "apiVersion", "kind")
    }
    wanted = joined(body, rest, nested(framework.stop.path, None), _hold(ctx))
    return without_null(wanted, in_lists=False)  # type: ignore[no-any-return]


def _hold(ctx: Context) -> dict[str, Any]:
    return nested(ctx.framework.hold.path, ctx.framework.hold.held)
