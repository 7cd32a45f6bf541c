"""TokenReview and SubjectAccessReview: the objects to create, and what their responses mean.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.kube.kinds import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW
from fournos.kube.resource import Obj, Resource

_LONGEST_TOKEN: Final = 16_384


def bearer(header: str) -> str:
    """Returns the token of an Authorization header, "" if there is none."""
    scheme, _, token = header.strip().partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and len(token) <= _LONGEST_TOKEN else ""


def token_review(token: str, *, audiences: tuple[str, ...] = ()) -> Obj:
    """Returns the TokenReview to create for a token; without audiences, the API server's own."""
    return _review(TOKEN_REVIEW, {"token": token, **({"audiences": list(audiences)} if audiences else {})})


def user_of(review: Obj) -> Mapping[str, Any] | None:
    """Returns the user of a reviewed token; None: the token is not of this cluster."""
    status = review.get("status") or {}
    user = status.get("user") or {}
    return user if status.get("authenticated") is True and user.get("username") else None


def access_review(user: Mapping[str, Any], **attributes: Mapping[str, Any]) -> Obj:
    """Returns the SubjectAccessReview to create for a user.

    `attributes`: resourceAttributes or nonResourceAttributes, as in its spec.
    """
    given = {"user": user["username"], **{name: user.get(name) for name in ("uid", "groups", "extra")}}
    spec = {name: value for name, value in given.items() if value}
    return _review(SUBJECT_ACCESS_REVIEW, {**spec, **attributes})


def _review(kind: Resource, spec: Mapping[str, Any]) -> Obj:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}, "spec": spec}


def allowed(review: Obj) -> bool:
    """True if a SubjectAccessReview allows the access."""
    status = review.get("status") or {}
    return status.get("allowed") is True and status.get("denied") is not True
