"""TokenReview, SubjectAccessReview, SelfSubjectRulesReview: what to create, and what answers mean.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import orjson

from fournos.engine.kube.resource import (
    SELF_SUBJECT_RULES_REVIEW,
    SUBJECT_ACCESS_REVIEW,
    TOKEN_REVIEW,
    Obj,
    Resource,
)
from fournos.engine.runtime.decision import User

_LONGEST_TOKEN: Final = 16_384
_SETS: Final = 256
"""Different sets of rules that are kept; each takes 30 to 80 KB."""


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
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        return None
    return User(
        name=str(user["username"]),
        uid=str(user.get("uid") or ""),
        groups=tuple(user.get("groups") or ()),
        extra=tuple((key, tuple(values)) for key, values in sorted((user.get("extra") or {}).items())),
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


def rules_review(namespace: str) -> Obj:
    """Returns the SelfSubjectRulesReview to create with the user's own credentials."""
    return _review(SELF_SUBJECT_RULES_REVIEW, {"namespace": namespace})


@dataclass(frozen=True, slots=True)
class Rules:
    """What a user may do with objects of any name in one namespace, by a SelfSubjectRulesReview.

    An authorizer that cannot list its rules (a webhook) may allow more and deny some of them: then
    `complete` is False, and `allow` proves nothing.
    """

    complete: bool = False
    rules: Sequence[Mapping[str, Any]] = ()
    _answers: dict[tuple[str, str, str], bool] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, review: Obj) -> Rules:
        status = review.get("status") or {}
        if status.get("incomplete") is not False:
            return cls()
        # Rules with names differ by namespace, and allow nothing here.
        rules = [rule for rule in status.get("resourceRules") or () if not rule.get("resourceNames")]
        return _complete(orjson.dumps(rules))

    def allow(self, verb: str, group: str, resource: str) -> bool:
        """True if RBAC allows the verb for objects of any name; `resource` may be "plural/subresource"."""
        asked = (verb, group, resource)
        if asked not in self._answers:
            self._answers[asked] = any(_covers(rule, *asked) for rule in self.rules)
        return self._answers[asked]


@lru_cache(_SETS)
def _complete(rules: bytes) -> Rules:
    """Parses a list of rules; cached, because a person has the same rules in most namespaces."""
    return Rules(complete=True, rules=orjson.loads(rules))


def names_allowed(
    review: Obj, names: Iterable[str], verb: str, group: str, resource: str
) -> tuple[str, ...] | None:
    """Returns those of these names for which a SelfSubjectRulesReview allows the verb.

    None: the API server cannot list all rules.
    """
    status = review.get("status") or {}
    if status.get("incomplete") is not False:
        return None
    rules = status.get("resourceRules") or ()
    given = [rule.get("resourceNames") for rule in rules if _covers(rule, verb, group, resource)]
    return tuple(name for name in names if any(not listed or name in listed for listed in given))


def _covers(rule: Mapping[str, Any], verb: str, group: str, resource: str) -> bool:
    """Returns whether RBAC applies this rule to the request; its resourceNames are not compared."""
    _, slash, subresource = resource.partition("/")
    resources = {"*", resource, *([f"*/{subresource}"] if slash else ())}
    return (
        not {"*", verb}.isdisjoint(rule.get("verbs") or ())
        and not {"*", group}.isdisjoint(rule.get("apiGroups") or ())
        and not resources.isdisjoint(rule.get("resources") or ())
    )
