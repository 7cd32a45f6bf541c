"""Shared watches: one list and one watch for each kind and namespace serve all waiting callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from typing import Any, Final, cast

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.errors import DeletedError
from fournos.engine.kube.api import Api, Listing, WatchEvent
from fournos.engine.kube.errors import ForbiddenError, KubeError, NoSuchResourceError, NotFoundError
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import Key, Obj, Resource, key_of, uid_of
from fournos.engine.kube.store import Store, version_of
from fournos.insight import children as c

LASTING: Final = 5.0
"""Seconds after which a broken watch is reported.  A shorter interruption is normal: watches are renewed."""
FEW: Final = 20
"""Up to this number of objects each is read by a get; more are read by one list of the namespace."""
_NOTHING: Final = "fournos.dev/no-such-label"


class FollowedObject:
    """One object, kept up to date by a shared watch."""

    def __init__(self, shared: SharedWatch, first: Obj) -> None:
        self._shared = shared
        self._latest = first
        self._uid = uid_of(first)
        self._gone = False
        self._changed = asyncio.Event()
        self._cut_at: float | None = None
        """The loop time at which the watch was first found broken; None while it works."""

    @property
    def key(self) -> Key:
        return key_of(self._latest)

    @property
    def object(self) -> Obj | None:
        """The object as last seen; None if it was deleted.

        Raises ForbiddenError or NoSuchResourceError if it can no longer be read: a retry does not help.
        """
        error = self._shared.error
        if not self._gone and isinstance(error, ForbiddenError | NoSuchResourceError):
            raise error
        return None if self._gone else self._latest

    @property
    def watch_error(self) -> KubeError | None:
        """The error of a watch that has been broken for LASTING seconds; None otherwise."""
        lasting = self._cut_at is not None and self._now() - self._cut_at >= LASTING
        return self._shared.error if lasting else None

    async def change(self, *, within: float = LASTING) -> None:
        """Waits for the next change, for at most `within` seconds.  Several changes may count as one.

        The limit lets the caller look at `watch_error`, which is not signalled as a change.
        Sends no request.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._changed.wait()
        self._changed.clear()
        if self._shared.error is None:
            self._cut_at = None
        elif self._cut_at is None:
            self._cut_at = self._now()

    def take(self, obj: Obj | None) -> None:
        """Updates the object from a list or a watch event.

        None or another UID means that our object was deleted.  An older version than the known one is
        ignored: a get may return after a newer watch event.
        """
        if obj is None or uid_of(obj) != self._uid:
            self._gone = True
        elif version_of(obj) and version_of(obj) < version_of(self._latest):
            return
        else:
            self._latest = obj
        self._changed.set()

    def wake(self) -> None:
        """Ends a waiting `change` without a change of the object."""
        self._changed.set()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class SharedWatch:
    """The watch of one kind and namespace, for the objects that callers wait for."""

    def __init__(self, api: Api, resource: Resource, namespace: str) -> None:
        self._api = api
        self._resource = resource
        self._namespace = namespace
        self._followed: dict[str, list[FollowedObject]] = {}
        """Name of the object → its followings."""
        self._reflector = Reflector(
            cast(Api, _Tap(self)), resource, Store(), namespace=namespace, on_state=self._wake_all
        )
        self._task: asyncio.Task[None] | None = None
        self._began = False
        """True once the first list has started: it may not include an object that is added later."""

    @property
    def error(self) -> KubeError | None:
        """The current error of the list or watch; None while it works."""
        return self._reflector.error

    async def add(self, following: FollowedObject) -> None:
        """Adds a following, and starts the watch with the first one.

        After the first list has started, the object is read by a get: neither the list nor the watch is sure
        to deliver its current state.
        """
        self._followed.setdefault(following.key.name, []).append(following)
        if self._task is None:
            self._task = asyncio.create_task(self._reflector.run())
        if not self._began:
            return
        try:
            following.take(await self._api.get(self._resource, following.key))
        except NotFoundError:
            following.take(None)

    def remove(self, following: FollowedObject) -> bool:
        """Removes the following.  Returns True if it was the last one."""
        name = following.key.name
        self._followed[name].remove(following)
        if not self._followed[name]:
            del self._followed[name]
        return not self._followed

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _wake_all(self) -> None:
        for followings in self._followed.values():
            for following in followings:
                following.wake()

    def update(self, name: str, obj: Obj | None) -> None:
        """Updates all followings of the name; None means that the object was deleted."""
        for following in tuple(self._followed.get(name, ())):
            following.take(obj)

    async def list(self, keep: Callable[[Obj], Obj] | None) -> Listing:
        """Reads the followed objects and returns an empty Listing with the resourceVersion to watch from.

        For few objects the version comes from a list whose selector matches nothing: its cost does not grow
        with the number of objects in the namespace.  The version is read before the objects, so that the
        watch repeats a change in between rather than missing it.
        """
        self._began = True
        names = tuple(self._followed)
        if len(names) > FEW:
            listed = await self._api.list(self._resource, namespace=self._namespace, keep=keep)
            version, objects = listed.resource_version, {key_of(obj).name: obj for obj in listed.items}
        else:
            empty = await self._api.list(self._resource, namespace=self._namespace, selector=_NOTHING)
            version, objects = empty.resource_version, {}
            for name in names:
                with suppress(NotFoundError):
                    objects[name] = await self._api.get(self._resource, Key(self._namespace, name))
        for name in names:
            self.update(name, objects.get(name))
        return Listing([], version)

    async def watch(self, options: dict[str, Any]) -> AsyncIterator[WatchEvent]:
        """Watches the kind, updates the followings, and yields a bookmark in place of each event."""
        async with aclosing(cast(Any, self._api.watch(self._resource, **options))) as events:
            async for event in events:
                if event.type in ("BOOKMARK", "ERROR"):
                    yield event
                    continue
                self.update(key_of(event.object).name, None if event.type == "DELETED" else event.object)
                # The reflector needs only the resourceVersion, so it gets a bookmark and stores nothing.
                yield WatchEvent("BOOKMARK", event.object)


class _Tap:
    """The part of an Api that the reflector uses; hands the objects to the followings."""

    def __init__(self, shared: SharedWatch) -> None:
        self._shared = shared

    async def list(self, *_: object, keep: Callable[[Obj], Obj] | None = None, **__: object) -> Listing:
        return await self._shared.list(keep)

    def watch(self, _: Resource, **options: Any) -> AsyncIterator[WatchEvent]:
        return self._shared.watch(options)


class Watches:
    """All shared watches of one API server."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._shared: dict[tuple[Resource, str], SharedWatch] = {}

    @asynccontextmanager
    async def follow(self, resource: Resource, first: Obj) -> AsyncIterator[FollowedObject]:
        """Follows the object `first` until the context ends.  The last following closes the watch."""
        where = (resource, key_of(first).namespace)
        shared = self._shared.get(where)
        if shared is None:
            shared = self._shared[where] = SharedWatch(self._api, *where)
        following = FollowedObject(shared, first)
        try:
            await shared.add(following)
            yield following
        finally:
            if shared.remove(following):
                del self._shared[where]
                await shared.close()


class Follower:
    """The current state of a job and of its dependents, kept up to date by watches.  Use `async with`.

    `resources` are the kinds of dependents to watch, selected by the job's label.
    """

    def __init__(
        self, api: Api, job: Obj, resources: Sequence[Resource] = (), *, watches: Watches | None = None
    ) -> None:
        self._first = job
        self._api = api
        self._watches = watches or Watches(api)
        self._stores = {resource: Store() for resource in resources}
        self._early = c.Children()
        self._stack = AsyncExitStack()
        self._following: FollowedObject

    async def __aenter__(self) -> Follower:
        """Starts the watches.  Raises KubeError if the dependents of the job cannot be read."""
        if self._stores:
            # One list of all kinds before the watches start: `children` is complete from the beginning,
            # in whatever order the caches synchronize.
            self._early = await c.children(self._api, self._first)
        self._following = await self._stack.enter_async_context(
            self._watches.follow(FOURNOS_JOB, self._first)
        )
        tasks = [asyncio.create_task(self._reflector(*one).run()) for one in self._stores.items()]
        self._stack.push_async_callback(_end, tasks)
        return self

    def _reflector(self, resource: Resource, store: Store) -> Reflector:
        return Reflector(
            self._api,
            resource,
            store,
            namespace=key_of(self._first).namespace,
            selector=c.selector(self._first),
            on_change=lambda *_: self._following.wake(),
        )

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def job(self) -> Obj:
        """The job as last seen.

        Raises DeletedError if it was deleted, and KubeError if it can no longer be read (permission removed,
        kind no longer served).
        """
        job = self._following.object
        if job is None:
            raise DeletedError(f"job {key_of(self._first).name} was deleted")
        return job

    @property
    def children(self) -> c.Children:
        """The dependents of the watched kinds."""
        if not all(store.synced or not store.served for store in self._stores.values()):
            return self._early
        return c.sort(self.job, *(self._stores.get(resource, ()) for resource in c.RESOURCES))

    @property
    def watch_error(self) -> KubeError | None:
        """The error of a watch of the job that has been broken for LASTING seconds; None otherwise."""
        return self._following.watch_error

    async def change(self, *, within: float = LASTING) -> None:
        """Waits for the next change of the job or of its dependents, for at most `within` seconds."""
        await self._following.change(within=within)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
