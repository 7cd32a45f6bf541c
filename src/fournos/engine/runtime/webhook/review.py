"""One AdmissionReview: parsed, decided by an operator's pure review, and answered."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, Protocol

import orjson

from fournos.engine.api.rules import Violation
from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Key, Obj, Resource, json_patch
from fournos.engine.runtime.decision import MAX_ROUNDS, Facts, User
from fournos.engine.runtime.fetch_facts import answered

# --- the types of a webhook -------------------------------------------------------------------------
# The types of an admission webhook: the requests that it reviews, and its pure review.
#
#     review(request, facts) -> Review
#
# The contract is that of a decision (`runtime.decision`): the review is pure, and it is called again with
# the answers to the questions that it requires.

Operation = Literal["CREATE", "UPDATE"]

_KUEUE = "kueue-"


@dataclass(frozen=True, slots=True)
class Request:
    """One AdmissionRequest."""

    operation: Operation
    user: User
    key: Key
    """Namespace and name; the name is "" if the API server will generate it from `generateName`."""
    new: Obj
    """The object of the request; its metadata always contain the namespace."""
    old: Obj | None = None
    """The stored object; None at creation."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Review:
    """The result of a review; the request is admitted if there are no problems."""

    problems: tuple[Violation, ...] = ()
    transient: bool = False
    """True: refused for now, because a fact could not be fetched; another try may succeed."""
    patch: Mapping[str, Any] = field(default_factory=dict)
    """For a mutating webhook: the JSON merge patch (RFC 7396) to the new object; lists are replaced whole."""
    warnings: tuple[str, ...] = ()
    """Warnings for the client, sent with any result; one line each."""


class ReviewFunction(Protocol):
    """A review function.  It is pure: no I/O, no clock, no randomness."""

    def __call__(self, request: Request, facts: Facts) -> Review: ...


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook: a path of the server and an entry of a webhook configuration.

    Entries with the same `kind` and `configuration` are in one object, which belongs to us alone.  The API
    server calls mutating configurations in the order of their names, and ours must come before Kueue's.
    """

    kind: Literal["mutating", "validating"]
    name: str
    """Name of the entry: a domain name with at least two dots."""
    configuration: str
    """Name of the webhook configuration.  No two deployments may use the same name."""
    path: str
    """Path on the server; it begins with a slash."""
    resources: tuple[Resource, ...]
    operations: tuple[Operation, ...]
    review: ReviewFunction
    subresources: tuple[str, ...] = ("",)
    """Subresources of the resources; "" is the resource itself."""
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    """What the API server does with a request when the webhook does not respond."""
    timeout: int = 10
    """Seconds that the API server waits for the response, 1 to 30."""
    namespaces: Mapping[str, Any] = field(default_factory=dict)
    """Label selector of namespaces; {} selects all."""
    conditions: tuple[tuple[str, str], ...] = ()
    """Match conditions (name, CEL expression); the API server sends only requests that match all of them."""
    again: bool = False
    """For a mutating webhook: called again if a later webhook has changed the object."""

    def __post_init__(self) -> None:
        """Raises ValueError if the API server would not register or order the webhook as required."""
        if not self.path.startswith("/"):
            raise ValueError(f"{self.name}: a path begins with a slash")
        if self.kind == "mutating" and self.configuration >= _KUEUE:
            raise ValueError(
                f"{self.configuration} must sort before {_KUEUE}: Kueue sees what is set before it"
            )


API_VERSION: Final = "admission.k8s.io/v1"


class GarbledError(Exception):
    """The request is not an AdmissionReview of a supported version."""


def parse(body: bytes) -> tuple[str, Request]:
    """Returns the request's UID and the request.  Raises GarbledError."""
    try:
        review = orjson.loads(body)
        if (review["apiVersion"], review["kind"]) != (API_VERSION, "AdmissionReview"):
            raise GarbledError(f"not an AdmissionReview of {API_VERSION}")
        request = review["request"]
        user = request.get("userInfo") or {}
        new = request["object"]
        namespace = request.get("namespace") or ""
        if namespace:
            # The object may have no namespace of its own: then the URL of the request had it.
            new = {**new, "metadata": {**(new.get("metadata") or {}), "namespace": namespace}}
        return str(request["uid"]), Request(
            operation=request["operation"],
            user=User(
                user.get("username") or "",
                user.get("uid") or "",
                tuple(user.get("groups") or ()),
                tuple((key, tuple(values)) for key, values in sorted((user.get("extra") or {}).items())),
            ),
            key=Key(namespace, request.get("name") or ""),
            new=new,
            old=request.get("oldObject"),
            dry_run=bool(request.get("dryRun")),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise GarbledError(f"not an AdmissionReview: {type(error).__name__}") from error


async def decide(webhook: Webhook, request: Request, api: Api, *, seconds: float) -> Review:
    """Returns the review of the request; its questions are answered within `seconds`.

    A question without an answer by then is Unknown.  Raises LookupError if the review requires new facts
    after MAX_ROUNDS rounds, and any error of a faulty review.
    """
    return await answered(partial(webhook.review, request), api, seconds=seconds, rounds=MAX_ROUNDS)


def verdict(review: Review) -> str:
    """Returns the review's result in one word, for metrics."""
    if review.problems:
        return "unsure" if review.transient else "refused"
    return "changed" if review.patch else "allowed"


def respond(uid: str, request: Request, review: Review) -> Mapping[str, Any]:
    """Returns the AdmissionReview with the response."""
    response: dict[str, Any] = {"uid": uid, "allowed": not review.problems}
    if review.warnings:
        response["warnings"] = list(review.warnings)
    if review.problems:
        response["status"] = _status(request, review)
    elif operations := json_patch(request.new, review.patch):
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(operations)).decode()}
    return {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}


def _status(request: Request, review: Review) -> dict[str, Any]:
    """Returns a Status as the API server's: 422 with the fields, or 503 if another try may succeed."""
    code, reason = (503, "ServiceUnavailable") if review.transient else (422, "Invalid")
    about = {
        "group": str(request.new.get("apiVersion") or "").rpartition("/")[0],
        "kind": str(request.new.get("kind") or ""),
        "name": request.key.name,
    }
    return {
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": "; ".join(map(str, review.problems)),
        "details": {**about, "causes": [_cause(problem) for problem in review.problems]},
    }


def _cause(problem: Violation) -> dict[str, str]:
    return {"reason": "FieldValueInvalid", "field": problem.field, "message": problem.message}
