"""The synchronous client: each method blocks on the method of `AsyncClient` of the same name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from fournos.client.asynchronous import AsyncClient
from fournos.client.bridge import LOOP, blocking, iterating, many_of, one_of, parameters_of
from fournos.client.clusters import (
    AsyncCluster,
    AsyncDispatch,
    AsyncQueue,
    ClusterView,
    DispatchView,
    QueueView,
)
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
    from fournos.client.stored import History
    from fournos.client.submission import Repeat


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
    resubmit = one_of(AsyncJob.resubmit, _job)


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
    delete = blocking(AsyncSchedule.delete)


class AppWrapper(Work, AppWrapperView):
    """See `AsyncAppWrapper`."""

    _async: AsyncAppWrapper

    watch = iterating(AsyncHandle.watch)
    components = blocking(AsyncAppWrapper.components)
    explain = blocking(AsyncAppWrapper.explain)


class MiniCluster(Work, MiniClusterView):
    """See `AsyncMiniCluster`."""

    _async: AsyncMiniCluster

    watch = iterating(AsyncHandle.watch)
    scale = blocking(AsyncMiniCluster.scale)
    logs = iterating(AsyncMiniCluster.logs)


class Dispatch(Handle, DispatchView):
    """See `AsyncDispatch`."""

    _async: AsyncDispatch

    def __init__(self, handle: AsyncDispatch) -> None:
        super().__init__(handle)
        self._check = handle._check

    watch = iterating(AsyncHandle.watch)
    explain = blocking(AsyncDispatch.explain)


class Object(Work, ObjectView):
    """See `AsyncObject`."""

    _async: AsyncObject

    def __init__(self, handle: AsyncObject) -> None:
        super().__init__(handle)
        self._resource = handle._resource
        self._framework = handle._framework

    watch = iterating(AsyncHandle.watch)
    explain = blocking(AsyncObject.explain)


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
        from fournos.client.stored import History

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
    dispatched = many_of(AsyncClient.dispatched, Dispatch)
    dispatch = one_of(AsyncClient.dispatch, Dispatch)
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
