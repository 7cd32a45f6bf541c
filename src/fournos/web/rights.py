"""What a person may read: of watched objects, and of the history."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from fournos.api.kinds import FOURNOS_JOB, Resource
from fournos.engine.kube.api import Api, Listing
from fournos.engine.runtime.decision import User
from fournos.engine.runtime.reviews import Reviewer
from fournos.insight.errors import ForbiddenError, KubeError
from fournos.insight.facts import everywhere
from fournos.insight.quota import LOCAL_QUEUE
from fournos.insight.source import Source, or_error
from fournos.insight.values import Key, Obj, key_of, namespaces
from fournos.web.site import Call, allowed_in


@dataclass
class Questions:
    """The rights that pages ask for.  The answers decide what a page shows."""

    watched: tuple[Resource, ...]
    namespaces: Callable[[Resource], Iterable[str]]
    """Returns the namespaces that have objects of a kind."""
    home: str = ""
    """The namespace of the jobs, which counts without objects, too; "" for all namespaces."""
    asked: set[tuple[str, Resource, str]] = field(default_factory=set)
    """Verb, resource and subresource of each question so far; their number is that of the checks in pages."""

    def __post_init__(self) -> None:
        self.asked |= {(verb, kind, "") for kind in self.watched for verb in ("get", "list")}

    def spaces(self) -> set[str]:
        """The namespaces that have objects of any watched kind."""
        spaces = {one for kind in self.watched if kind.namespaced for one in self.namespaces(kind)}
        return spaces | {self.home} if self.home else spaces


class SubjectRights:
    """The rights of one user, reviewed when a page asks for them."""

    def __init__(self, reviewer: Reviewer, user: User, questions: Questions, *, own: Api) -> None:
        """`own` acts with the user's credentials."""
        self._reviewer = reviewer
        self._user = user
        self._questions = questions
        self._own = own

    async def may(
        self, verb: str, resource: Resource, namespace: str = "", *, name: str = "", subresource: str = ""
    ) -> bool:
        """True if the user has the right.  From then on the question counts for `permission_class`."""
        self._questions.asked.add((verb, resource, subresource))
        return await self._may(verb, resource, subresource, namespace, name)

    async def _may(
        self, verb: str, resource: Resource, subresource: str, namespace: str, name: str = ""
    ) -> bool:
        attributes = {
            "group": resource.group,
            "version": resource.version,
            "resource": resource.plural,
            "verb": verb,
            "namespace": namespace if resource.namespaced else "",
            "name": name,
            "subresource": subresource,
        }
        given = {key: value for key, value in attributes.items() if value}
        return await self._reviewer.may(self._user, given, own=self._own)

    async def permission_class(self) -> str:
        """Returns a digest of the answers to all questions that pages ask.

        A new kind of question changes the digest of all persons once.
        """
        asked = sorted(self._questions.asked, key=str)
        found = await asyncio.gather(*(self._where(*one) for one in asked))
        answers = [
            [verb, str(kind), sub, where] for (verb, kind, sub), where in zip(asked, found, strict=True)
        ]
        return hashlib.sha256(json.dumps(answers).encode()).hexdigest()[:32]

    async def _where(self, verb: str, resource: Resource, subresource: str) -> list[str]:
        """Returns the namespaces in which the user has the right; [""] for all of them."""
        if await self._may(verb, resource, subresource, ""):
            return [""]
        if not resource.namespaced:
            return []
        questions = self._questions
        # What is not watched, such as the rows of the history, may be in any namespace.
        spaces = questions.namespaces(resource) if resource in questions.watched else questions.spaces()
        return await allowed_in(partial(self._may, verb, resource, subresource), spaces)


# --- watched objects ------------------------------------------------------------------------------


May = Callable[[str, Resource, str], Awaitable[bool]]
"""Called with verb, resource and namespace; "" means all namespaces."""


class Permitted:
    """A Source that checks a right before it looks anything up: no response may show what exists."""

    def __init__(self, source: Source, may: May, spaces: Callable[[], Iterable[str]]) -> None:
        """`spaces` returns the namespaces that have watched objects of any kind."""
        self._source = source
        self._may = may
        self._spaces = spaces

    async def get(self, resource: Resource, key: Key) -> Obj:
        if not await self._may("get", resource, key.namespace):
            raise _forbidden("get", resource, key.namespace)
        return await self._source.get(resource, key)

    async def list(
        self, resource: Resource, *, namespace: str = "", selector: str = "", fields: str = ""
    ) -> Listing:
        """Without the right in all namespaces, the objects of those namespaces where it is given.

        Raises ForbiddenError if it is given in none: where it is given, there may be no such objects yet.
        """
        if await self._may("list", resource, namespace):
            return await self._source.list(resource, namespace=namespace, selector=selector, fields=fields)
        if namespace or not resource.namespaced:
            raise _forbidden("list", resource, namespace)
        listing = await self._source.list(resource, selector=selector, fields=fields)
        spaces = namespaces(listing.items)
        allowed = await self._where(resource, spaces)
        if listing.items and not allowed and not await self._where(resource, {*self._spaces()} - spaces):
            raise ForbiddenError(f"you may not list {resource.plural} in any namespace", status=403)
        return Listing([one for one in listing.items if key_of(one).namespace in allowed], "")

    async def _where(self, resource: Resource, spaces: Iterable[str]) -> frozenset[str]:
        return frozenset(await allowed_in(partial(self._may, "list", resource), spaces))


def _forbidden(verb: str, resource: Resource, namespace: str) -> ForbiddenError:
    where = f"in the namespace {namespace}" if namespace else "in all namespaces"
    return ForbiddenError(f"you may not {verb} {resource.plural} {where}", status=403)


# --- the history ----------------------------------------------------------------------------------


RUNS: Final = Resource("history.fournos.dev", "v1", "Run", "runs")
"""What rules of the history's API name; no API server has it."""
_MOST: Final = 50
"""Namespaces that are read at most."""


async def recorded_namespaces(call: Call, resource: Resource = RUNS) -> tuple[str, ...]:
    """Returns ("",) for all namespaces, else those that the person may read: of those with jobs or a queue.

    Without any right the result is the namespace of the jobs that the person can read, else (""): the
    request for that namespace then returns the reason of the refusal.
    """
    if call.site.jobs_namespace:
        return (call.site.jobs_namespace,)
    may, caches = call.viewer.rights.may, call.site.caches
    if await may("list", resource):
        return ("",)
    spaces = caches.namespaces(FOURNOS_JOB) | caches.namespaces(LOCAL_QUEUE)
    allowed = await allowed_in(partial(may, "list", resource), spaces)
    return tuple(allowed[:_MOST]) or (await _seen(call),)


async def _seen(call: Call) -> str:
    found = await or_error(everywhere(call.viewer.source, FOURNOS_JOB, ""))
    return "" if isinstance(found, KubeError) else min(namespaces(found), default="")


async def home(call: Call) -> str:
    """The namespace of a run that is named without one: the default one, if the person may read it."""
    own, spaces = call.viewer.client.namespace, await recorded_namespaces(call)
    return own if spaces == ("",) or own in spaces else spaces[0]
