"""What pages, actions and downloads are, and what they share: the person, watched objects, kept answers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from multidict import MultiMapping

from fournos.api.kinds import Resource
from fournos.client.asynchronous import AsyncClient
from fournos.insight.caches import ObjectCaches
from fournos.insight.errors import KubeError, NotFoundError
from fournos.insight.source import Source
from fournos.insight.values import Obj, is_terminating, key_of, uid_of
from fournos.web.render import Renderer


class PersonRights(Protocol):
    """What a person may do.  Raises KubeError if the API server does not answer."""

    async def may(
        self,
        verb: str,
        resource: Resource,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
    ) -> bool:
        """`namespace` "" means all namespaces."""
        ...

    async def permission_class(self) -> str:
        """Persons of the same class see the same objects: what is rendered for one suits all of them."""
        ...


@dataclass(frozen=True, slots=True)
class Viewer:
    """A person who is logged in."""

    name: str
    source: Source
    """The watched objects that the person may read.  Reading from it costs no request."""
    client: AsyncClient
    """The API server with the person's own credentials: for writes, logs and the history."""
    rights: PersonRights
    key: str
    """Differs between credentials: what is kept for one person is not shown to another one."""


async def allowed_in(may: Callable[[str], Awaitable[bool]], namespaces: Iterable[str]) -> list[str]:
    """Returns the namespaces for which `may` is true, in order."""
    wanted = sorted(namespaces)
    rights = await asyncio.gather(*map(may, wanted))
    return [one for one, right in zip(wanted, rights, strict=True) if right]


# --- answers that are kept ------------------------------------------------------------------------


T = TypeVar("T")
Stamp = TypeVar("Stamp")

ANSWERS: Final = 256
"""Entries that are kept; the least recently used one goes first."""


class Kept(Generic[Stamp]):
    """Answers by key.  Requests for one answer at the same time wait for the same one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[Hashable, tuple[Stamp, asyncio.Task[Any]]] = OrderedDict()

    async def kept(
        self, key: Hashable, stamp: Stamp, valid: Callable[[Stamp], bool], make: Callable[[], Awaitable[T]]
    ) -> T:
        """Returns the answer whose stamp is valid, else a new one.  An error is raised and not kept.

        A caller that stops waiting does not stop the request: the next one gets its answer.
        """
        entry = self._entries.get(key)
        if entry is None or not valid(entry[0]) or _failed(entry[1]):
            entry = stamp, asyncio.ensure_future(make())
            # Its waiters may all be gone when it fails.
            entry[1].add_done_callback(_failed)
            self._entries[key] = entry
        self._entries.move_to_end(key)
        while len(self._entries) > self._most:
            self._entries.popitem(last=False)
        return cast(T, await asyncio.shield(entry[1]))

    def clear(self) -> None:
        """Forgets all answers."""
        self._entries.clear()


class Memo(Kept[float]):
    """Answers that cost requests, kept for a while: estimates, usage, the health of the installation."""

    def __init__(self, most: int = ANSWERS) -> None:
        super().__init__(most)
        self._last: OrderedDict[Hashable, Any] = OrderedDict()

    def remember(self, key: Hashable, answer: Any) -> None:
        """Keeps an answer of any age, for when the next one is late or an error."""
        self._last[key] = answer
        self._last.move_to_end(key)
        while len(self._last) > self._most:
            self._last.popitem(last=False)

    def remembered(self, key: Hashable) -> Any:
        """Returns what was last remembered under this key; None without anything."""
        return self._last.get(key)

    def clear(self) -> None:
        super().clear()
        self._last.clear()

    async def get(self, key: Hashable, seconds: float, make: Callable[[], Awaitable[T]]) -> T:
        """Returns an answer that is at most `seconds` old."""
        now = asyncio.get_running_loop().time()
        return await self.kept(key, now, lambda made: now - made <= seconds, make)


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


# --- writes that watched objects must show --------------------------------------------------------


PATIENCE: Final = 2.0
"""Seconds after which the page follows anyway: the watch may be broken."""
_PAUSE: Final = 0.02


@dataclass(frozen=True, slots=True)
class Written:
    """An object as the API server returned it after a write."""

    resource: Resource
    obj: Obj
    deleted: bool = False


async def arrived(caches: ObjectCaches, written: Written) -> None:
    """Waits until the watched objects have the write, for at most `PATIENCE` seconds."""
    with suppress(TimeoutError, KubeError):
        async with asyncio.timeout(PATIENCE):
            while not await _is_there(caches, written):  # noqa: ASYNC110 - a change has one receiver: the streams
                await asyncio.sleep(_PAUSE)


async def _is_there(caches: ObjectCaches, written: Written) -> bool:
    """Raises KubeError if the kind is not watched."""
    try:
        obj = await caches.get(written.resource, key_of(written.obj))
    except NotFoundError:
        return written.deleted
    if written.deleted:
        return is_terminating(obj) or uid_of(obj) != uid_of(written.obj)
    return _version(obj) >= _version(written.obj)


def _version(obj: Obj) -> int:
    """Returns the resourceVersion as a number; they grow within a kind, and any other text counts as old."""
    text = str(obj["metadata"].get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0


# --- pages, actions and downloads -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Call:
    """A request of a person who is logged in."""

    site: Site
    viewer: Viewer
    now: datetime
    path: Mapping[str, str] = field(default_factory=dict)
    """The variables of the path."""
    query: MultiMapping[str] | Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page; `name` is its template and its module in `pages`."""

    name: str
    title: str
    """Variables of the path in braces."""
    path: str
    """As in aiohttp, with variables in braces."""
    gather: Callable[[Call], Awaitable[Mapping[str, Any]]]
    """Returns the data of the template.  Raises PageError, KubeError or FournosError."""
    watched: tuple[Resource, ...] = ()
    """An open tab shows changes of these kinds; empty: the page is as it was when it was loaded."""
    fresh: float = 30.0
    """Seconds after which an open tab shows what else has changed, such as in the history."""
    in_nav: bool = True
    under: str = ""
    """The path of the page whose entry of the navigation is marked, where that is not a prefix of `path`."""
    shared: bool = True
    """It shows persons with the same rights the same.  False if it reads with the person's credentials."""
    command: str = ""
    """The command line that shows the same, with variables of the path in braces.

    {jobs} is the option of the jobs' namespace, if the page is of one; {all_jobs} is -A otherwise.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A write: a form posts to it, and it answers with the page to go to."""

    name: str
    path: str
    act: Callable[[Call, Mapping[str, str]], Awaitable[Done | ShownPage]]
    """Called with the fields of the form.  Raises as `Page.gather` does."""


@dataclass(frozen=True, slots=True)
class Done:
    """What an action did."""

    location: str
    """The path of the page to go to."""
    notice: str
    """One sentence for the person."""
    wrote: Written | None = field(default=None, compare=False)
    """The page of `location` is loaded when the watched objects have this."""


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A form that is shown again with what was filled in: for a preview, or because it would be refused."""

    page: Page
    data: Mapping[str, Any]
    """The data of the page's template."""
    status: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A file that is sent in pieces."""

    name: str
    path: str
    open: Callable[[Call], Awaitable[Content]]
    """Raises as `Page.gather` does; so may the first piece."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a download sends.  Browsers do not interpret it: it is anybody's."""

    pieces: AsyncIterator[bytes]
    filename: str
    """A browser saves it under this name."""


# --- what all of them share -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Site:
    """The parts of one running page server."""

    caches: ObjectCaches
    """The watched objects; `Viewer.source` is the part of them that a person may read."""
    jobs_namespace: str
    """Empty: all namespaces."""
    clusters_namespace: str
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    renderer: Renderer = field(default_factory=Renderer)
    memo: Memo = field(default_factory=Memo)
    """Cached answers that cost requests to make."""
