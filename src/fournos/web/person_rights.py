"""Reviews the rights of a person.

The rules that the API server lists for the person answer all questions about a namespace by one request.
SubjectAccessReviews of our own ServiceAccount answer those about all namespaces, and those about a namespace
whose rules the API server does not list.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Resource
from fournos.engine.runtime.decision import User
from fournos.engine.runtime.reviewer import Reviewer
from fournos.web.viewer import allowed_in


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
