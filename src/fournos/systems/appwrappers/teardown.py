"""Takes the wrapped resources down, until the API server confirms that none is left.

Kueue relies on this: the quota is free when ResourcesDeployed is False. A cache cannot prove it, so
everything is read live.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fournos.engine.api.conditions import Condition
from fournos.engine.kube.resource import POD, Obj, is_terminating, key_of, uid_of
from fournos.engine.runtime.decision import LiveGet, Present, Unknown
from fournos.engine.runtime.steps import Delete, Step
from fournos.systems.appwrappers.context import CREATED, Context


@dataclass(frozen=True, slots=True)
class Removal:
    """The next steps of a teardown."""

    done: bool
    steps: tuple[Step, ...] = ()
    wake_at: datetime | None = None
    retry: bool = False


def remove(ctx: Context) -> Removal:
    """Returns the next steps, and writes the progress to the draft."""
    questions = {
        index: question
        for index in range(len(ctx.templates))
        if (question := ctx.component_question(index)) is not None
    }
    *answers, pods_answer = ctx.facts.require_all((*questions.values(), ctx.pods_question))
    left: list[tuple[int, LiveGet, Obj]] = []
    unsure = False
    for (index, question), answer in zip(questions.items(), answers, strict=True):
        if isinstance(answer, Unknown):
            unsure = unsure or not (answer.forbidden and ctx.was_refused(index))
        elif isinstance(answer, Present) and ctx.owns(answer.value):
            left.append((index, question, answer.value))
            ctx.draft.component_condition(index, CREATED)
            unsure = unsure or not ctx.observed.watched[index]
        else:
            _gone(ctx, index)
    unsure = unsure or isinstance(pods_answer, Unknown)
    pods: tuple[Obj, ...] = pods_answer.value if isinstance(pods_answer, Present) else ()
    if not left and not pods and not unsure:
        ctx.draft.clear("DeletingResources", "DeletionComplete")
        return Removal(done=True)
    if not ctx.draft.is_true("DeletingResources"):
        ctx.draft.condition("DeletingResources", "True", "DeletionInitiated")
    # Progress is guaranteed: after the grace period the deletion becomes forceful.
    force_at = ctx.draft.since("DeletingResources") + ctx.tolerance.forceful_deletion
    if ctx.now >= force_at:
        return Removal(done=False, steps=_forced(left, pods), retry=True)
    steps = tuple(
        Delete(
            question.resource,
            question.key,
            uid_of(obj),
            # Pods without our label cannot be listed: in the foreground they are gone before their owner.
            propagation="Background" if ctx.pods_seen(index) else "Foreground",
        )
        for index, question, obj in left
        if not is_terminating(obj)
    )
    return Removal(done=False, steps=steps, wake_at=force_at, retry=unsure)


def _gone(ctx: Context, index: int) -> None:
    """Records that no object of the component exists: it was deleted or never created."""
    deployed = ctx.deployed(index)
    match deployed.status if deployed is not None else "":
        case "True":
            condition = Condition("ResourcesDeployed", "False", "ComponentDeleted", "")
            ctx.draft.component_condition(index, condition)
        case "Unknown":
            text = "another component could not be created, or it was taken down before this one's turn"
            condition = Condition("ResourcesDeployed", "False", "ComponentNotCreated", text)
            ctx.draft.component_condition(index, condition)


def _forced(left: list[tuple[int, LiveGet, Obj]], pods: tuple[Obj, ...]) -> tuple[Step, ...]:
    """Returns deletions without a grace period: pods first, then components that have no pods left."""
    if pods:
        return tuple(Delete(POD, key_of(pod), uid_of(pod), grace_seconds=0) for pod in pods)
    return tuple(
        Delete(question.resource, question.key, uid_of(obj), grace_seconds=0) for _, question, obj in left
    )
