"""For whom a schedule creates jobs: the person or account that last changed what it does.

The mutating webhook reviews that right when a schedule is created or changed, and stores the author in an
annotation that every write through it sets anew, so that nobody else can.
"""

from __future__ import annotations

import json
from typing import Any, Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.rules import Violation
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.decision import Facts, MayCreate, Present, Unknown, User
from fournos.engine.runtime.webhook.types import Request, Review
from fournos.systems.schedules.names import AUTHOR_ANNOTATION
from fournos.systems.schedules.trigger import trigger_text

_PAUSE: Final = "suspend"
"""The field that changes nothing of what is run: who pauses a schedule does not become its author."""


def author_of(schedule: Obj) -> User | None:
    """Returns the stored author; None if there is none, or none that can be read."""
    text = (schedule["metadata"].get("annotations") or {}).get(AUTHOR_ANNOTATION)
    try:
        stored = json.loads(text or "null")
        return User(
            name=str(stored["name"]),
            uid=str(stored.get("uid") or ""),
            groups=tuple(map(str, stored.get("groups") or ())),
            extra=tuple(
                (str(key), tuple(map(str, values))) for key, values in (stored.get("extra") or {}).items()
            ),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def stored(user: User) -> str:
    """Returns the text of the annotation."""
    values: dict[str, Any] = {
        "name": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(texts) for key, texts in user.extra},
    }
    return json.dumps({name: value for name, value in values.items() if value}, sort_keys=True)


def review(request: Request, facts: Facts) -> Review:
    """Refuses a schedule whose user may not create FournosJobs there, and stores the user as its author."""
    before = None
    if request.old is not None and work(request.old) == work(request.new):
        before = _annotation(request.old)
        if before is not None and trigger_text(request.old) == trigger_text(request.new):
            return _with_author(request, before)
    answer = facts.require(MayCreate(request.user, FOURNOS_JOB, request.key.namespace))
    if isinstance(answer, Present) and answer.value:
        # Who triggers a schedule does not become its author.
        return _with_author(request, before or stored(request.user))
    if isinstance(answer, Unknown):
        who = request.user.name
        text = f"whether {who} may create FournosJobs could not be learnt, try again: {answer.reason}"
        return Review((Violation("spec", text, "author"),), transient=True)
    text = (
        f"{request.user.name} may not create FournosJobs in namespace {request.key.namespace}, so no schedule"
    )
    return Review((Violation("spec", text, "author"),))


def work(schedule: Obj) -> dict[str, Any]:
    """Returns what the schedule does: who changes it becomes its author."""
    return {name: value for name, value in (schedule.get("spec") or {}).items() if name != _PAUSE}


def _annotation(schedule: Obj) -> str | None:
    text = (schedule["metadata"].get("annotations") or {}).get(AUTHOR_ANNOTATION)
    return None if text is None else str(text)


def _with_author(request: Request, text: str) -> Review:
    if _annotation(request.new) == text:
        return Review()
    return Review(patch={"metadata": {"annotations": {AUTHOR_ANNOTATION: text}}})
