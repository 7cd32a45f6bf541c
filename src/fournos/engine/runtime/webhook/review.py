"""One AdmissionReview: parsed, decided by an operator's pure review, and answered."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import orjson

from fournos.engine.api.rules import Violation
from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Key, json_patch
from fournos.engine.runtime.decision import MAX_ROUNDS, User
from fournos.engine.runtime.fetch_facts import answered
from fournos.engine.runtime.webhook.types import Request, Review, Webhook

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
