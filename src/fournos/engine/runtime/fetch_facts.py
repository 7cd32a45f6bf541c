"""Fetches the answers that a decision requires: present, absent or unknown; never raises a KubeError."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import (
    ForbiddenError,
    KubeError,
    NoSuchResourceError,
    NotFoundError,
)
from fournos.engine.kube.resource import (
    POD,
    SECRET,
    SUBJECT_ACCESS_REVIEW,
    Obj,
    created_at,
    key_of,
    owner_uids,
    uid_of,
)
from fournos.engine.kube.store import LAST_APPLIED
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Facts,
    LiveGet,
    LiveList,
    LogTail,
    NeededFacts,
    Present,
    Question,
    SecretFacts,
    SecretShape,
    Unknown,
    UserAccess,
    attempt,
)
from fournos.engine.runtime.logs import BEYOND, redact
from fournos.engine.runtime.reviews import access_review, allowed

T = TypeVar("T")

MAX_LINE = 1000
"""Characters kept of each log line, because a tail ends up in a status message."""
_MAX_TAIL: Final = 2**20
"""Bytes of the lines of a tail that are read."""


async def answer(api: Api, questions: Iterable[Question]) -> dict[Question, Answer]:
    """Returns the answers to all questions; they are fetched concurrently."""
    distinct = list(dict.fromkeys(questions))
    return dict(
        zip(distinct, await asyncio.gather(*(_one(api, question) for question in distinct)), strict=True)
    )


async def answered(decide: Callable[[Facts], T], api: Api, *, seconds: float, rounds: int) -> T:
    """Returns the result of a decision whose questions are answered within `seconds`.

    A question without an answer by then is Unknown.  Raises LookupError if the decision requires new facts
    after so many rounds, and any error of a faulty decision.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    answers: dict[Question, Answer] = {}
    for _ in range(rounds + 1):
        result = attempt(decide, Facts(answers))
        if not isinstance(result, NeededFacts):
            return result
        try:
            async with asyncio.timeout_at(deadline):
                answers |= await answer(api, result.questions)
        except TimeoutError:
            answers |= {question: Unknown("no answer in time") for question in result.questions}
    raise LookupError(f"the decision still asks after {rounds} rounds")


async def _one(api: Api, question: Question) -> Answer:
    try:
        match question:
            case LiveGet():
                return Present(await api.get(question.resource, question.key))
            case LiveList():
                listing = await api.list(
                    question.resource,
                    namespace=question.namespace,
                    selector=question.selector,
                    fields=question.fields,
                )
                return Present(tuple(listing.items))
            case SecretShape():
                return Present(_shape(await api.get(SECRET, question.key)))
            case LogTail():
                return await _tail(api, question)
            case UserAccess():
                return await _user_access(api, question)
    except NotFoundError:
        return Absent()
    except NoSuchResourceError:
        return Absent(no_kind=True)
    except ForbiddenError as error:
        return Unknown(error.message, forbidden=True)
    except KubeError as error:
        return Unknown(f"{type(error).__name__}: {error.message}")


async def _user_access(api: Api, question: UserAccess) -> Answer:
    resource = question.resource
    attributes = {
        "verb": question.verb,
        "group": resource.group,
        "version": resource.version,
        "resource": resource.plural,
        "namespace": question.namespace,
        **({"name": question.name} if question.name else {}),
    }
    review = await api.create(
        SUBJECT_ACCESS_REVIEW, access_review(question.user, resourceAttributes=attributes)
    )
    if (error := (review.get("status") or {}).get("evaluationError")) and not allowed(review):
        # An authorizer has failed.  Without it a denial is not certain, but a permission of another one is.
        return Unknown(str(error))
    return Present(allowed(review))


def _shape(secret: Obj) -> SecretFacts:
    meta = secret["metadata"]
    return SecretFacts(
        uid=uid_of(secret),
        owner_uids=owner_uids(secret),
        labels=dict(meta.get("labels") or {}),
        keys=tuple(sorted(secret.get("data") or {})),
        annotations=public_annotations(secret),
    )


def public_annotations(secret: Obj) -> dict[str, str]:
    """Returns the annotations without the one in which `kubectl apply` keeps the whole Secret."""
    found: Mapping[str, str] = secret["metadata"].get("annotations") or {}
    return {key: value for key, value in found.items() if key != LAST_APPLIED}


async def _tail(api: Api, question: LogTail) -> Answer:
    pods = (await api.list(POD, namespace=question.namespace, selector=question.selector)).items
    if not pods:
        return Absent()
    newest = max(pods, key=lambda pod: (created_at(pod), key_of(pod)))
    container = question.container or _main_container(newest)
    log = await api.logs(key_of(newest), container=container, tail=question.lines, limit_bytes=_MAX_TAIL)
    texts = [line.rstrip("\n")[: MAX_LINE + BEYOND] async for line in log]
    lines = redact("\n".join(texts[-question.lines :])).split("\n")
    return Present("\n".join(line[:MAX_LINE] for line in lines))


def _main_container(pod: Obj) -> str | None:
    """Returns the container whose logs `kubectl logs` shows by default.

    The API server has no default for a pod with several containers.
    """
    named = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    containers = (pod.get("spec") or {}).get("containers") or ()
    return named or (str(containers[0]["name"]) if containers else None)
