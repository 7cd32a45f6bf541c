"""For whom a schedule creates jobs: the person or account that last changed what it does.

The mutating webhook reviews the author's rights when a schedule is created or changed, and stores the author
in an annotation that every write through it sets anew, so that nobody else can.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from fournos.engine.api.rules import Violation
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.runtime.decision import Facts, LiveGet, Present, Unknown, User
from fournos.engine.runtime.webhook.types import Request, Review
from fournos.systems.schedules.author_rights import AuthorRight, rights_to_create, rights_to_end
from fournos.systems.schedules.context import Context
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
    """Refuses a schedule that uses rights which its user does not have, and stores the user as its author."""
    before, rights = None, rights_to_create(request.new)
    if request.old is not None and work(request.old) == work(request.new):
        before = _annotation(request.old)
        unchanged = trigger_text(request.old) == trigger_text(request.new)
        # Whoever only pauses a schedule from before the webhook, such as the operator, is no author.
        if unchanged and (before is not None or _annotation(request.new) is None):
            return _with_author(request, before)
    if before is None:
        rights += rights_to_end(request.new)  # a trigger creates jobs and ends none
    user, namespace = request.user, request.key.namespace
    answers = facts.require_all([right.question(user, namespace) for right in rights])
    for right, answer in zip(rights, answers, strict=True):
        if isinstance(answer, Unknown):
            text = f"whether {user.name} may {right} could not be learnt, try again: {answer.reason}"
            return Review((Violation("spec", text, "author"),), transient=True)
        if not (isinstance(answer, Present) and answer.value):
            where = f" in namespace {namespace}" if right.resource.namespaced else ""
            what = f" with {right.field}" if right.field else ""
            text = f"{user.name} may not {right}{where}, so no schedule{what}"
            return Review((Violation("spec", text, "author"),))
    # Who triggers a schedule does not become its author.
    return _with_author(request, before or stored(user))


def lost_right(ctx: Context, rights: Sequence[AuthorRight]) -> str | None:
    """Returns why the author may not have this done any more; "": allowed; None: not known now.

    The review is of every fire: a schedule must be no way around a right that its author has lost.
    """
    author = author_of(ctx.obj)
    if author is None:
        if not ctx.settings.authors_required:
            return ""
        return "no author is stored: change the schedule while the operator's webhook is served"
    questions = [right.question(author, ctx.namespace) for right in rights]
    # What is done next takes the schedule itself, read live: in the same round.
    answers = ctx.facts.require_all((*questions, LiveGet(ctx.resource, key_of(ctx.obj))))
    for right, answer in zip(rights, answers, strict=False):
        if not isinstance(answer, Present):
            return None
        if not answer.value:
            what = f" ({right.field})" if right.field else ""
            return f"its author {author.name} may not {right} any more{what}"
    return ""


def work(schedule: Obj) -> dict[str, Any]:
    """Returns what the schedule does: who changes it becomes its author."""
    return {name: value for name, value in (schedule.get("spec") or {}).items() if name != _PAUSE}


def _annotation(schedule: Obj) -> str | None:
    text = (schedule["metadata"].get("annotations") or {}).get(AUTHOR_ANNOTATION)
    return None if text is None else str(text)


def _with_author(request: Request, text: str | None) -> Review:
    if _annotation(request.new) == text:
        return Review()
    return Review(patch={"metadata": {"annotations": {AUTHOR_ANNOTATION: text}}})
