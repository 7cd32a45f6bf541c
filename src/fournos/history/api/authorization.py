"""Decides what a caller may read: rights of the history's own, on a resource that only rules name.

`runs`, `runs/logs`, `runs/artifacts`, `runs/results` and `estimates` of the group history.fournos.dev exist
in no API server.  Rules name them, so the history has rights that outlive the objects.  A namespace is its
UID: where it is gone, or another one has its name, only a right in all namespaces reads its runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import NAMESPACE, key_of, uid_of
from fournos.engine.runtime.decision import User
from fournos.engine.runtime.reviewer import Reviewer
from fournos.engine.runtime.ttl_cache import TtlCache
from fournos.history.api.errors import ForbiddenError, UnavailableError
from fournos.history.records import Run

if TYPE_CHECKING:
    from fournos.history.store import HistoryStore

GROUP: Final = "history.fournos.dev"
ALL_CLUSTERS: Final = "allclusters"
"""The resource on which a verb opens the runs of other clusters, where one database has those of several."""
_NAMESPACES: Final = 10.0
"""Seconds for which the list of namespaces is cached."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a request does."""

    verb: str
    resource: str = "runs"
    """With its subresource, such as runs/logs."""

    def attributes(self, namespace: str) -> dict[str, str]:
        """The resourceAttributes of a SubjectAccessReview; `namespace` "" means all."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {"group": GROUP, "version": "v1", "verb": self.verb, "resource": resource}
        if namespace:
            attributes["namespace"] = namespace
        if subresource:
            attributes["subresource"] = subresource
        return attributes


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of the history that a caller may read with one request."""

    namespaces: tuple[str, ...] | None
    """UIDs of namespaces; None: all, gone ones included."""
    cluster: str = ""
    """Whose runs may be read (`Identity.cluster`); "": any that has the namespaces, as a UID is of one."""

    def includes(self, run: Run) -> bool:
        mine = self.cluster in ("", run.identity.cluster)
        return mine and (self.namespaces is None or run.namespace_uid in self.namespaces)


class HistoryAuthorizer:
    """Checks rights by SubjectAccessReviews, whose results are cached."""

    def __init__(
        self,
        api: Api,
        store: Callable[[], Awaitable[HistoryStore]],
        *,
        cluster: str,
        monotonic: Callable[[], float],
    ) -> None:
        """`store()` returns the open store.

        `cluster`: the own one, as in `Identity.cluster`; rights are those that its API server knows."""
        self._api = api
        self._cluster = cluster
        self._store = store
        self._reviewer = Reviewer(api, monotonic=monotonic)
        self._uids: TtlCache[None, dict[str, str]] = TtlCache(1, monotonic=monotonic)

    async def scope(
        self, user: User, access: Access, namespace: str = "", *, all_clusters: bool = False
    ) -> Scope:
        """Returns what the user may read in the namespace, or anywhere in the own cluster.

        `all_clusters`: in the other clusters of the database, too, which takes the same verb on `allclusters`
        beside the right in all namespaces.

        Rights are checked before anything is looked up, so that no response shows what exists.  Raises
        ForbiddenError and UnavailableError.
        """
        if all_clusters:
            for right in (access, replace(access, resource=ALL_CLUSTERS)):
                if not await self.may(user, right, ""):
                    raise ForbiddenError(f"{_cannot(user, right)} in all namespaces")
            return Scope(None)
        if await self.may(user, access, ""):
            return Scope(None, self._cluster)
        if not namespace:
            return Scope(await self._allowed(user, access))
        if not await self.may(user, access, namespace):
            raise ForbiddenError(f'{_cannot(user, access)} in the namespace "{namespace}"')
        uid = (await self._current()).get(namespace)
        return Scope((uid,) if uid else ())

    async def _allowed(self, user: User, access: Access) -> tuple[str, ...]:
        current = await self._current()
        recorded = await (await self._store()).namespaces()
        present = [(name, uid) for name, uid in recorded if current.get(name) == uid]
        rights = await asyncio.gather(*(self.may(user, access, name) for name, _ in present))
        return tuple(uid for (_, uid), right in zip(present, rights, strict=True) if right)

    async def may(self, user: User, access: Access, namespace: str) -> bool:
        """True if the user has the right in the namespace; "" means in all.  Raises UnavailableError."""
        try:
            return await self._reviewer.may(user, access.attributes(namespace))
        except KubeError as error:
            raise UnavailableError("the API server cannot review the access now", retry_after=2) from error

    async def _current(self) -> dict[str, str]:
        """Returns the UID of each namespace that exists, by name."""
        uids = self._uids.get(None)
        if uids is None:
            try:
                items = (await self._api.list(NAMESPACE)).items
            except KubeError as error:
                raise UnavailableError("the namespaces cannot be read now", retry_after=2) from error
            uids = self._uids.put(None, {key_of(item).name: uid_of(item) for item in items}, _NAMESPACES)
        return uids


def _cannot(user: User, access: Access) -> str:
    return f'User "{user.name}" cannot {access.verb} resource "{access.resource}" in API group "{GROUP}"'
