"""The admission webhook of FournosSchedules."""

from __future__ import annotations

from pydantic import ValidationError

from fournos.api.fournosschedule import FournosScheduleSpec
from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.engine.api.rules import Violation
from fournos.engine.runtime.decision import Facts
from fournos.engine.runtime.webhook.types import Request, Review, Webhook
from fournos.systems.schedules import author
from fournos.systems.schedules.plan import problem
from fournos.systems.schedules.settings import ScheduleSettings


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
    """Refuses times that do not exist, then reviews the author; a schedule on its way out is let through."""
    if request.new["metadata"].get("deletionTimestamp"):
        return Review()
    if (text := _problem(request)) and (
        request.old is None or request.old.get("spec") != request.new.get("spec")
    ):
        return Review((Violation("spec", text, "schedule"),))
    return author.review(request, facts)


def _problem(request: Request) -> str:
    try:
        spec = FournosScheduleSpec.model_validate(request.new.get("spec") or {})
    except ValidationError:
        return ""  # the schema refuses it, with a better message
    return problem(spec)
