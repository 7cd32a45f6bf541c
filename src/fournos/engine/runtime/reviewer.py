"""Asks the API server who a token belongs to and what a user may do; keeps the answers for a short time."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import ForbiddenError, NotFoundError
from fournos.engine.kube.resource import SELF_SUBJECT_RULES_REVIEW, SUBJECT_ACCESS_REVIEW, TOKEN_REVIEW
from fournos.engine.runtime.decision import User
from fournos.engine.runtime.reviews import Rules, access_review, allowed, rules_review, token_review, user_of
from fournos.engine.runtime.ttl_cache import TtlCache

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

    def known(self, token: str) -> bool:
        """True if `user` answers without a request."""
        return self._users.get(_digest(token)) is not None

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
