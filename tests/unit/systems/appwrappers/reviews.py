"""Requests to the webhooks of AppWrappers, and what they return."""

from __future__ import annotations

from typing import Any

from fournos.engine.kube.resource import Key
from fournos.engine.queueing.workload import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Facts,
    LiveGet,
    NeededFacts,
    Present,
    Question,
    UnknownFields,
    User,
    attempt,
)
from fournos.engine.runtime.webhook.review import Request, Review
from fournos.systems.appwrappers.admission import review
from fournos.systems.appwrappers.part import default
from fournos.systems.appwrappers.settings import AppWrapperSettings
from tests.unit.systems.appwrappers.actors import (
    NS,
)

ALICE = User("alice", "u-1", ("dev",))


FREE = AppWrapperSettings(user_rbac_admission_check=False)


CHECKED = AppWrapperSettings()


def refusals(new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [one.rule for one in reviewed(request_for(new, old)).problems]


def reviewed(
    request: Request,
    settings: AppWrapperSettings = FREE,
    *,
    there: Answer = Absent(),  # noqa: B008
    unknown: tuple[str, ...] = (),
) -> Review:
    """With this answer to each look at what is wrapped, and these unknown fields in it."""
    known: dict[Question, Answer] = {}
    while isinstance(found := attempt(review, request, Facts(known), settings=settings), NeededFacts):
        known |= {
            one: Present(unknown) if isinstance(one, UnknownFields) else there for one in found.questions
        }
    return found


def request_for(new: dict[str, Any], old: dict[str, Any] | None = None) -> Request:
    name = new["metadata"].get("name", "")
    return Request("UPDATE" if old else "CREATE", ALICE, Key(NS, name), new, old)


LOCAL: Answer = Present({"spec": {"clusterQueue": "cq"}})


def patch(
    new: dict[str, Any],
    *,
    queue: Answer = Absent(),  # noqa: B008
    check: str = "",
    **changes: Any,
) -> Any:
    """`queue` is the answer for the queue `default`; `check` the controller of the ClusterQueue's check."""
    checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]}} if check else {}
    answers: dict[Any, Answer] = {
        **{LiveGet(LOCAL_QUEUE, Key(NS, name)): LOCAL for name in ("user-queue", "std")},
        LiveGet(LOCAL_QUEUE, Key(NS, "default")): queue,
        LiveGet(CLUSTER_QUEUE, Key("", "cq")): Present({"spec": checks}),
        LiveGet(ADMISSION_CHECK, Key("", "check")): Present({"spec": {"controllerName": check}}),
    }
    found = default(request_for(new), Facts(answers), settings=AppWrapperSettings(**changes))
    assert isinstance(found, Review) and not found.problems
    return found.patch
