"""TokenReview and SubjectAccessReview: the objects to create, and what their responses mean.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.kube.kinds import SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW
from fournos.kube.resource import Obj, Resource
from fournos.runtime.decision import User

_LONGEST_TOKEN: Final = 16_384


def bearer(header: str) -> str:
    """Returns the token of an Authorization header, "" if there is none."""
    scheme, _, token = header.strip().partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and len(token) <= _LONGEST_TOKEN else ""


def token_review(token: str, *, audiences: tuple[str, ...] = ()) -> Obj:
    """Returns the TokenReview to create for a token; without audiences, the API server's own."""
    return _review(TOKEN_REVIEW, {"token": token, **({"audiences": list(audiences)} if audiences else {})})


def user_of(review: Obj) -> User | None:
    """Returns the user of a reviewed token; None: the token is not valid in this cluster."""
    status = review.get("status") or {}
    found = status.get("user") or {}
    if status.get("authenticated") is not True or not found.get("username"):
        return None
    return User(
        name=str(found["username"]),
        uid=str(found.get("uid") or ""),
        groups=tuple(found.get("groups") or ()),
        extra=tuple((key, tuple(values)) for key, values in sorted((found.get("extra") or {}).items())),
    )


def access_review(user: User, **attributes: Mapping[str, Any]) -> Obj:
    """Returns the SubjectAccessReview to create for a user.

    `attributes`: resourceAttributes or nonResourceAttributes, as in its spec.
    """
    given = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra},
    }
    spec = {name: value for name, value in given.items() if value}
    return _review(SUBJECT_ACCESS_REVIEW, {**spec, **attributes})


def _review(kind: Resource, spec: Mapping[str, Any]) -> Obj:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}, "spec": spec}


def allowed(review: Obj) -> bool:
    """True if a SubjectAccessReview allows the access."""
    status = review.get("status") or {}
    return status.get("allowed") is True and status.get("denied") is not True
