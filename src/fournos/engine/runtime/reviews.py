"""TokenReview, SubjectAccessReview, SelfSubjectRulesReview: what to create, and what answers mean.  Pure."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar
from weakref import WeakValueDictionary

import orjson

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import ForbiddenError, NotFoundError
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


def token_review(token: str) -> Obj:
    """Returns the TokenReview to create for a token."""
    return _review(TOKEN_REVIEW, {"token": token})


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


# --- answers that are kept --------------------------------------------------------------------------
# A small cache whose entries end by time.

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
SWEPT: Final = 60.0
"""Seconds between two looks for values that have ended."""


class TtlCache(Generic[K, V]):
    """Keeps at most `size` values, each for the seconds given with it."""

    def __init__(self, size: int, *, monotonic: Callable[[], float]) -> None:
        self._size = size
        self._monotonic = monotonic
        self._kept: dict[K, tuple[float, V]] = {}
        self._sweep_at = monotonic() + SWEPT

    def get(self, key: K) -> V | None:
        """Returns the value; None if there is none, or its time is over."""
        until, value = self._kept.get(key, (0.0, None))
        return value if self._monotonic() < until else None

    def put(self, key: K, value: V, seconds: float) -> V:
        """Keeps the value and returns it.  A full cache loses what has ended, then its oldest entry.

        What has ended leaves a cache that is not full, too, once a minute.
        """
        now = self._monotonic()
        self._kept.pop(key, None)
        if len(self._kept) >= self._size or now >= self._sweep_at:
            self._sweep_at = now + SWEPT
            self._kept = {one: entry for one, entry in self._kept.items() if entry[0] > now}
        while len(self._kept) >= self._size:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = (now + seconds, value)
        return value


# --- asking -----------------------------------------------------------------------------------------
# Asks the API server who a token belongs to and what a user may do; keeps the answers for a short time.

KNOWN: Final = 60.0
"""Seconds for which a valid token is not reviewed again."""
UNKNOWN: Final = 5.0
ALLOWED: Final = 30.0
"""Seconds for which a permission is kept: a withdrawn right ends after that time at the latest."""
DENIED: Final = 5.0
TOKENS: Final = 2048
RIGHTS: Final = 65_536
NAMESPACES: Final = 8192
"""Namespaces of all users whose rules are kept."""
AT_ONCE: Final = 4
"""Maximum number of concurrent SubjectAccessReviews of one user: many namespaces of one delay no other."""
TOKENS_AT_ONCE: Final = 8
"""Maximum number of concurrent TokenReviews: a flood of unknown tokens must not reach the API server."""

T = TypeVar("T")


class BusyError(Exception):
    """Too many tokens are being reviewed."""


class Reviewer:
    """Reviews with our own identity.  Keeps digests of tokens, never tokens."""

    def __init__(self, api: Api, *, monotonic: Callable[[], float]) -> None:
        self._api = api
        self._users: TtlCache[bytes, tuple[User | None]] = TtlCache(TOKENS, monotonic=monotonic)
        self._rights: TtlCache[Hashable, bool] = TtlCache(RIGHTS, monotonic=monotonic)
        self._rules: TtlCache[tuple[User, str], Rules] = TtlCache(NAMESPACES, monotonic=monotonic)
        self._rooms: WeakValueDictionary[User, asyncio.Semaphore] = WeakValueDictionary()
        self._token_room = asyncio.Semaphore(TOKENS_AT_ONCE)
        self._asking: dict[Hashable, asyncio.Task[Any]] = {}

    async def user(self, token: str) -> User | None:
        """Returns the user of a token; None: it is not valid in this cluster.

        Raises BusyError, and KubeError if the API server does not answer.
        """
        key = _digest(token)
        if (answer := self._users.get(key)) is None:
            if self._token_room.locked():
                raise BusyError
            async with self._token_room:
                user = user_of(await self._api.create(TOKEN_REVIEW, token_review(token)))
            answer = self._users.put(key, (user,), UNKNOWN if user is None else KNOWN)
        return answer[0]

    async def may(self, user: User, attributes: Mapping[str, str], *, own: Api | None = None) -> bool:
        """True if the user has the right of these resourceAttributes.  Raises KubeError.

        `own` acts with the user's credentials.  With it, one SelfSubjectRulesReview answers all questions
        about a namespace, wherever the API server can list the rules.
        """
        namespace, denied = attributes.get("namespace"), DENIED
        if own is not None and namespace and "name" not in attributes:
            rules = await self._rules_of(user, namespace, own)
            if rules.complete:
                resource = "/".join(filter(None, (attributes["resource"], attributes.get("subresource"))))
                return rules.allow(attributes["verb"], attributes.get("group", ""), resource)
            denied = ALLOWED  # a page asks this about each namespace
        key = (user, tuple(sorted(attributes.items())))
        if (found := self._rights.get(key)) is not None:
            return found
        return await self._once(key, lambda: self._review(key, user, attributes, denied))

    async def _review(self, key: Hashable, user: User, attributes: Mapping[str, str], denied: float) -> bool:
        async with self._rooms.setdefault(user, asyncio.Semaphore(AT_ONCE)):
            review = access_review(user, resourceAttributes=attributes)
            right = allowed(await self._api.create(SUBJECT_ACCESS_REVIEW, review))
        return self._rights.put(key, right, ALLOWED if right else denied)

    async def _rules_of(self, user: User, namespace: str, own: Api) -> Rules:
        key = (user, namespace)
        if (rules := self._rules.get(key)) is not None:
            return rules

        async def review() -> Rules:
            try:
                answer = await own.create(SELF_SUBJECT_RULES_REVIEW, rules_review(namespace))
            except (ForbiddenError, NotFoundError):
                answer = {}  # an API server that lists no rules for this user
            return self._rules.put(key, Rules.of(answer), ALLOWED)

        return await self._once(key, review)

    async def _once(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks once for all callers of the same time; a cancelled caller cancels no other."""
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.ensure_future(ask())
            task.add_done_callback(lambda done: self._answered(key, done))
        return await asyncio.shield(task)

    def _answered(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        self._asking.pop(key, None)
        if not task.cancelled():
            task.exception()  # looked at, even if all who waited are gone


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
