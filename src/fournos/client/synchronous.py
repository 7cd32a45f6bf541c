"""The synchronous client: each method blocks on the method of `AsyncClient` of the same name.

The calls of all clients run on one event loop in one thread.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, Self, TypeVar, cast

from fournos.client.asynchronous import AsyncClient
from fournos.client.clusters import AsyncCluster, AsyncQueue, ClusterView, QueueView
from fournos.client.connection import Handles, W
from fournos.client.handles import AsyncHandle, AsyncWork, Seconds
from fournos.client.jobs import AsyncJob
from fournos.client.schedules import AsyncSchedule, ScheduleView
from fournos.client.views import JobView, View
from fournos.client.workloads import (
    AppWrapperView,
    AsyncAppWrapper,
    AsyncMiniCluster,
    AsyncObject,
    MiniClusterView,
    ObjectView,
)
from fournos.engine.kube.resource import Obj

if TYPE_CHECKING:
    from fournos.client.history import History
    from fournos.client.submission import Repeat


P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")
_END: Final = object()


class Loop:
    """An event loop in a thread of its own, started by the first call.

    The caller's thread may already run an event loop, as notebooks do.  That loop is blocked for the time of
    the call, but not used.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Runs the call and returns its result.

        When the caller is interrupted (Ctrl-C) the call is cancelled, and has ended before this method
        raises.  Raises RuntimeError if called from the loop's own thread.
        """
        loop = self._started()
        if threading.current_thread() is self._thread:
            call.close()
            raise RuntimeError("a synchronous call within an asynchronous one: use AsyncClient there")
        over = threading.Event()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            tasks.append(loop.create_task(call))
            tasks[0].add_done_callback(lambda _: over.set())

        def cancel() -> None:
            tasks[0].cancel()

        loop.call_soon_threadsafe(start)
        try:
            over.wait()
        except BaseException:
            loop.call_soon_threadsafe(cancel)
            over.wait()
            _ = tasks[0].cancelled() or tasks[0].exception()  # retrieved, so that asyncio does not warn
            raise
        return tasks[0].result()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="fournos-client", daemon=True
                )
                self._thread.start()
            return self._loop


LOOP: Final = Loop()


class Facade(Protocol):
    """A synchronous wrapper of an asynchronous object."""

    _async: Any


def parameters_of(
    method: Callable[Concatenate[Any, P], Any],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Decorates a method that takes and hands on the parameters of another one: it has their signature."""

    def decorate(own: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        own.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
        return own

    return decorate


def one_of(
    method: Callable[Concatenate[Any, P], Awaitable[T]], face: Callable[[T], S]
) -> Callable[Concatenate[Any, P], S]:
    """Returns a facade's method that blocks on the asynchronous method and returns `face` of its result."""

    @functools.wraps(method)
    def call(self: Facade, /, *args: P.args, **kwargs: P.kwargs) -> S:
        return face(LOOP.run(cast(Coroutine[Any, Any, T], method(self._async, *args, **kwargs))))

    return call


def blocking(
    method: Callable[Concatenate[Any, P], Awaitable[T]],
) -> Callable[Concatenate[Any, P], T]:
    """As `one_of`, for a method whose result is the same for both."""
    return one_of(method, lambda result: result)


def many_of(
    method: Callable[Concatenate[Any, P], Awaitable[Handles[Any]]], face: Callable[[Any], W]
) -> Callable[Concatenate[Any, P], Handles[W]]:
    """As `one_of`, for a method that returns a list of handles: wraps each in `face`."""
    return one_of(method, lambda handles: handles.mapped(face))


async def _next(items: AsyncGenerator[T, None]) -> T | object:
    return await anext(items, _END)


def iterating(
    method: Callable[Concatenate[Any, P], AsyncIterator[T]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """Returns a facade's method that iterates over the asynchronous generator, one item at a time.

    The asynchronous generator is closed when the caller ends the iteration.
    """

    @functools.wraps(method)
    def iterate(self: Facade, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        items = cast(AsyncGenerator[T, None], method(self._async, *args, **kwargs))
        try:
            while True:
                item = LOOP.run(_next(items))
                if item is _END:
                    return
                yield cast(T, item)
        finally:
            # The loop's thread no longer runs during interpreter shutdown: the call would never return.
            if not sys.is_finalizing():
                LOOP.run(items.aclose())

    return iterate


class Handle(View):
    """See `AsyncHandle`."""

    def __init__(self, handle: Any) -> None:
        self._async = handle

    @property
    def raw(self) -> Obj:
        found: Obj = self._async.raw
        return found

    refresh = blocking(AsyncHandle.refresh)
    wait = blocking(AsyncHandle.wait)
    settle = blocking(AsyncHandle.settle)


class Work(Handle):
    """See `AsyncWork`."""

    delete = blocking(AsyncWork.delete)


def _job(job: AsyncJob) -> Job:
    return Job(job)


class Job(Work, JobView):
    """See `AsyncJob`."""

    _async: AsyncJob

    @property
    def repeats(self) -> Repeat | None:
        """See `AsyncJob.repeats`."""
        return self._async.repeats

    watch = iterating(AsyncJob.watch)
    logs = iterating(AsyncJob.logs)
    tasks = blocking(AsyncJob.tasks)
    explain = blocking(AsyncJob.explain)
    estimate = blocking(AsyncJob.estimate)
    results = blocking(AsyncJob.results)
    stop = blocking(AsyncJob.stop)
    hold = blocking(AsyncJob.hold)
    release = blocking(AsyncJob.release)
    retry = one_of(AsyncJob.retry, _job)


class Cluster(Handle, ClusterView):
    """See `AsyncCluster`."""

    _async: AsyncCluster

    watch = iterating(AsyncHandle.watch)
    lock = blocking(AsyncCluster.lock)
    unlock = blocking(AsyncCluster.unlock)
    drain = blocking(AsyncCluster.drain)
    undrain = blocking(AsyncCluster.undrain)
    discover = blocking(AsyncCluster.discover)


class Queue(Handle, QueueView):
    """See `AsyncQueue`."""

    _async: AsyncQueue

    watch = iterating(AsyncHandle.watch)
    waiting = blocking(AsyncQueue.waiting)


class Schedule(Work, ScheduleView):
    """See `AsyncSchedule`."""

    _async: AsyncSchedule

    watch = iterating(AsyncHandle.watch)
    suspend = blocking(AsyncSchedule.suspend)
    resume = blocking(AsyncSchedule.resume)
    trigger = many_of(AsyncSchedule.trigger, Job)
    jobs = many_of(AsyncSchedule.jobs, Job)

    def delete(self, *, cascade: bool = False) -> None:  # type checkers take that of `Work` for an assignment
        """See `AsyncSchedule.delete`."""
        blocking(AsyncSchedule.delete)(self, cascade=cascade)


class Object(Work, ObjectView):
    """See `AsyncObject`."""

    _async: AsyncObject

    def __init__(self, handle: AsyncObject) -> None:
        super().__init__(handle)
        self._resource = handle._resource
        self._framework = handle._framework

    watch = iterating(AsyncHandle.watch)
    explain = blocking(AsyncObject.explain)


class AppWrapper(AppWrapperView, Object):
    """See `AsyncAppWrapper`."""

    _async: AsyncAppWrapper

    components = blocking(AsyncAppWrapper.components)


class MiniCluster(MiniClusterView, Object):
    """See `AsyncMiniCluster`."""

    _async: AsyncMiniCluster

    scale = blocking(AsyncMiniCluster.scale)
    logs = iterating(AsyncMiniCluster.logs)


class Client:
    """See `AsyncClient`."""

    @parameters_of(AsyncClient.__init__)
    def __init__(self, **options: Any) -> None:
        self._async = AsyncClient(**options)

    @property
    def namespace(self) -> str:
        return self._async.namespace

    @property
    def owner(self) -> str:
        return self._async.owner

    @property
    def history(self) -> History:
        """See `AsyncClient.history`."""
        from fournos.client.history import History

        return History(self._async.history)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        LOOP.run(self._async.close())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} namespace={self.namespace!r} owner={self.owner!r}>"

    close = blocking(AsyncClient.close)
    submit = one_of(AsyncClient.submit, Job)
    job = one_of(AsyncClient.job, Job)
    jobs = many_of(AsyncClient.jobs, Job)
    clusters = many_of(AsyncClient.clusters, Cluster)
    cluster = one_of(AsyncClient.cluster, Cluster)
    queues = many_of(AsyncClient.queues, Queue)
    queue = blocking(AsyncClient.queue)
    schedules = many_of(AsyncClient.schedules, Schedule)
    schedule = one_of(AsyncClient.schedule, Schedule)
    create_schedule = one_of(AsyncClient.create_schedule, Schedule)
    appwrappers = many_of(AsyncClient.appwrappers, AppWrapper)
    appwrapper = one_of(AsyncClient.appwrapper, AppWrapper)
    submit_appwrapper = one_of(AsyncClient.submit_appwrapper, AppWrapper)
    miniclusters = many_of(AsyncClient.miniclusters, MiniCluster)
    minicluster = one_of(AsyncClient.minicluster, MiniCluster)
    submit_minicluster = one_of(AsyncClient.submit_minicluster, MiniCluster)
    objects = many_of(AsyncClient.objects, Object)
    object = one_of(AsyncClient.object, Object)
    submit_matrix = many_of(AsyncClient.submit_matrix, Job)

    def wait_all(
        self,
        jobs: Iterable[Job],
        *,
        timeout: Seconds | None = None,
        progress: Callable[[int, int, Job], None] | None = None,
    ) -> None:
        """See `AsyncClient.wait_all`; `progress` is called in the thread of the client's event loop."""
        faces = {job._async: job for job in jobs}

        def forward(ended: int, of: int, job: AsyncJob) -> None:
            if progress is not None:
                progress(ended, of, faces[job])

        LOOP.run(self._async.wait_all(faces, timeout=timeout, progress=forward))
