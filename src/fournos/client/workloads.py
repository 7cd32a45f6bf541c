"""The handles of what waits in a queue besides jobs: AppWrappers, MiniClusters and objects of any kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from fournos.api.kinds import APPWRAPPER, MINICLUSTER
from fournos.api.phase import OF_APPWRAPPERS, OF_MINICLUSTERS
from fournos.client.errors import FournosError, NoLogError, ObjectFailed, typed, typed_iterator
from fournos.client.handles import PATIENCE, AsyncWork, Seconds
from fournos.client.logs import LogLine, container_lines
from fournos.client.views import View
from fournos.engine.kube.resource import Obj, Resource, key_of
from fournos.insight.failure import LogSource
from fournos.insight.values import one_line, phase_of, spec_of, status_of

if TYPE_CHECKING:
    from fournos.client.connection import ClientConnection
    from fournos.insight.appwrappers import WrappedComponent
    from fournos.insight.explanation import Explanation
    from fournos.systems.frameworks.kinds import Framework
    from fournos.systems.frameworks.queued import QueuedObject


class ObjectView(View):
    """A view of an object of any kind as last read; `raw` is the whole object."""

    _resource: Resource
    _framework: Framework | None = None

    @property
    def kind(self) -> str:
        """The kind, such as PipelineRun."""
        return self._resource.kind

    @property
    def phase(self) -> str:
        """Waiting, Running, Succeeded, Failed or Terminating; for other kinds the phase in the status."""
        if self._framework is None:
            return phase_of(self.raw)
        from fournos.insight.frameworks import FrameworkFacts, phase

        return phase(FrameworkFacts(self._framework, self.raw))

    @property
    def message(self) -> str:
        """The message of the end or of the status, on one line."""
        ended = self._queued.ended() if self._queued else None
        return one_line(ended.message if ended else status_of(self.raw).get("message"))

    @property
    def ended(self) -> bool:
        """True if the object has ended, by the rules of its configured kind."""
        return self._queued is not None and self._queued.ended() is not None

    @property
    def succeeded(self) -> bool:
        """True if the object has ended with success."""
        ended = self._queued.ended() if self._queued else None
        return ended is not None and ended.succeeded

    @property
    def _queued(self) -> QueuedObject | None:
        if self._framework is None:
            return None
        from fournos.systems.frameworks.queued import queued

        return queued(self._framework, self.raw)

    def _columns(self) -> dict[str, Any]:
        return {**super()._columns(), "kind": self.kind, "queue": self.queue_name}


class AsyncObject(AsyncWork, ObjectView):
    """The handle of one object of any kind, identified by its UID."""

    def __init__(
        self,
        client: ClientConnection,
        raw: Obj,
        resource: Resource | None = None,
        framework: Framework | None = None,
    ) -> None:
        """`resource` and `framework` are those of a kind without a class of its own."""
        super().__init__(client, raw)
        if resource is not None:
            self._resource, self._framework = resource, framework
            self._ends = framework is not None

    @property
    def _noun(self) -> str:  # type: ignore[override]
        return self._resource.kind

    @typed
    async def explain(self) -> Explanation:
        """Explains why the object waits, is made again or has failed, and what follows.

        Raises FournosError for a kind that is not queued by configuration.
        """
        from fournos.insight.frameworks import explain, gather
        from fournos.insight.sheets import sheet

        await self.refresh()
        if self._framework is not None:
            return explain(await gather(self._client.api, self._framework, self._raw))
        if self._resource in (APPWRAPPER, MINICLUSTER):
            read = await sheet(self._client.api, self.kind, key_of(self._raw), self._client.now())
            return read.explanation
        raise FournosError(
            f"{self.kind} is not a kind that is queued by configuration",
            fix="name the operator's file of kinds: FOURNOS_FRAMEWORKS_FILE",
        )

    async def _raise_failure(self) -> None:
        if self.ended and not self.succeeded:
            raise ObjectFailed(self, fix=f"why: fournos explain {self.kind.lower()}/{self.name}")

    def _plural(self) -> str:
        return "objects"


class AppWrapperView(ObjectView):
    """A view of an AppWrapper as last read; `raw` is the whole object."""

    _resource = APPWRAPPER

    @property
    def ended(self) -> bool:
        """True if the AppWrapper has succeeded or failed."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def succeeded(self) -> bool:
        """True if the AppWrapper has succeeded."""
        return self.phase == "Succeeded"

    @property
    def message(self) -> str:
        """The message of the condition that explains the phase; "" if there is none."""
        from fournos.insight.appwrappers import why

        return why(self.raw)


class AsyncAppWrapper(AppWrapperView, AsyncObject):
    """The handle of one AppWrapper, identified by its UID."""

    _phases = OF_APPWRAPPERS

    @typed
    async def components(self) -> list[WrappedComponent]:
        """Returns the wrapped resources in their order, each with its state and its pods."""
        from fournos.insight.appwrappers import components, members

        await self.refresh()
        return components(self._raw, await members(self._client.api, self._raw))

    def _plural(self) -> str:
        return "appwrappers"


class MiniClusterView(ObjectView):
    """A view of a MiniCluster as last read; `raw` is the whole object."""

    _resource = MINICLUSTER

    @property
    def phase(self) -> str:
        """Waiting, Running, Ready (all brokers are up) or Finished."""
        return str(status_of(self.raw).get("phase") or OF_MINICLUSTERS[0])

    @property
    def ended(self) -> bool:
        """True if the lead broker has ended."""
        return self.phase == OF_MINICLUSTERS[-1]

    @property
    def succeeded(self) -> bool:
        """True if the exit code of the lead broker is 0."""
        return self.ended and self.exit_code == 0

    @property
    def exit_code(self) -> int | None:
        """The exit code of the lead broker; None before its end."""
        code = status_of(self.raw).get("exitCode")
        return None if code is None else int(code)

    @property
    def size(self) -> int:
        """The number of pods that are asked for."""
        return int(spec_of(self.raw).get("size", 1))

    @property
    def ready(self) -> int:
        """The number of pods whose broker is up."""
        return int(status_of(self.raw).get("ready") or 0)

    def _columns(self) -> dict[str, Any]:
        numbers = {"size": self.size, "ready": self.ready, "exit_code": self.exit_code}
        return {**super()._columns(), **numbers}


class AsyncMiniCluster(MiniClusterView, AsyncObject):
    """The handle of one MiniCluster, identified by its UID.

    A MiniCluster with spec.cleanup is deleted when it ends: `wait` then raises DeletedError.
    """

    _phases = OF_MINICLUSTERS

    @typed
    async def scale(self, size: int, *, timeout: Seconds = PATIENCE) -> None:
        """Changes the number of pods and waits until so many brokers are up; `timeout=0` does not wait.

        Tasks on pods that go end first.  Raises EndedError for a finished MiniCluster, FournosError for a
        size above its maximum, and WaitTimeout after `timeout`; the request stays in force.
        """
        from fournos.insight.miniclusters import scale_change

        await self._patch(lambda: scale_change(self._raw, size))
        await self._effect(
            lambda: self.ended or self.ready == size, timeout, f"not all of {size} brokers are up"
        )

    @typed_iterator
    async def logs(
        self,
        *,
        follow: bool = False,
        rank: int = 0,
        container: str | None = None,
        tail: int | None = None,
    ) -> AsyncIterator[LogLine]:
        """Yields the log lines of one broker, by default the lead broker; `rank` names another.

        `container` is by default the one that runs Flux.  With `follow` it waits for the pod and continues
        until the pod ends.  Raises NoLogError if there is no such pod.
        """
        await self.refresh()
        source = await self._log_source(rank, container, patient=follow)
        lines = container_lines(self._client.api, source, tail, follow=follow)
        async with aclosing(cast(Any, lines)) as found:
            async for line in found:
                yield line

    async def _log_source(self, rank: int, container: str | None, *, patient: bool) -> LogSource:
        """Returns the container; `patient` waits until it has started, or can no longer start.

        The pods are listed again with each change of the MiniCluster, and every few seconds.
        """
        from fournos.insight.miniclusters import log_source, pods

        async with aclosing(self._changes()) as changes:
            async for raw in changes:
                members = await pods(self._client.api, raw)
                try:
                    source = log_source(raw, members, rank=rank, container=container)
                except NoLogError:
                    if not patient or self.ended:
                        raise
                    continue
                if source.started or self.ended or not patient:
                    return source
        raise self._deleted()

    async def _raise_failure(self) -> None:
        if self.ended and not self.succeeded:
            raise ObjectFailed(self, fix=f"what was printed: fournos minicluster logs {self.name}")

    def _plural(self) -> str:
        return "miniclusters"
