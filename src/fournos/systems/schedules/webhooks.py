"""The admission webhook of FournosSchedules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from fournos.api.fournosschedule import FournosScheduleSpec
from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.engine.api.rules import Violation
from fournos.engine.runtime.decision import Facts
from fournos.engine.runtime.webhook.types import Request, Review, Webhook
from fournos.systems.schedules import author
from fournos.systems.schedules.children import changed
from fournos.systems.schedules.plan import problem
from fournos.systems.schedules.settings import ScheduleSettings
from fournos.systems.schedules.template import template_violations
from fournos.systems.schedules.trigger import parsed, trigger_text


def schedule_webhooks(settings: ScheduleSettings) -> tuple[Webhook, ...]:
    """Returns the webhook.

    It fails closed: without it a schedule would create what its author may not.
    """
    return (
        Webhook(
            kind="mutating",
            name="author.fournos.dev",
            configuration=f"fournos-schedules-{settings.namespace}",
            path="/mutate-fournos-dev-v1-fournosschedule",
            resources=(FOURNOS_SCHEDULE,),
            operations=("CREATE", "UPDATE"),
            review=review,
            namespaces={"matchLabels": {"kubernetes.io/metadata.name": settings.namespace}},
        ),
    )


def review(request: Request, facts: Facts) -> Review:
    """Refuses times that do not exist and jobs that cannot be created, then reviews the author.

    A schedule on its way out is let through, and so is a pause of one that was stored before.
    """
    if request.new["metadata"].get("deletionTimestamp"):
        return Review()
    problems = _problems(request)
    return Review(tuple(problems)) if problems else author.review(request, facts)


def _problems(request: Request) -> list[Violation]:
    old, new = request.old, request.new
    edited = old is None or author.work(old) != author.work(new)
    changes = _new_changes(request)
    if not edited and not changes:
        return []
    try:
        spec = FournosScheduleSpec.model_validate(new.get("spec") or {})
    except ValidationError:
        return []  # the schema refuses it, with a better message
    if text := problem(spec):
        return [Violation("spec", text, "schedule")]
    broken = template_violations(new, spec) if edited else []
    return broken or (template_violations(*changed(new, spec, changes)) if changes else [])


def _new_changes(request: Request) -> Mapping[str, Any]:
    """Returns the fields that a trigger of this write sets."""
    text = trigger_text(request.new)
    if request.old is not None and text == trigger_text(request.old):
        return {}
    trigger = parsed(text)
    return trigger.changes if trigger else {}
