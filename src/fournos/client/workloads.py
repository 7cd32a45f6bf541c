"""The handles of what waits in a queue besides jobs: AppWrappers, MiniClusters and objects of any kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from fournos.api.kinds import APPWRAPPER, MINICLUSTER
from fournos.api.phase import OF_APPWRAPPERS, OF_MINICLUSTERS
from fournos.client.errors import FournosError, ObjectFailed, typed, typed_iterator
from fournos.client.handles import PATIENCE, AsyncWork, Seconds
from fournos.client.logs import LogLine, container_lines
from fournos.client.views import QueuedView
from fournos.engine.kube.resource import Obj, Resource
from fournos.insight.failure import LogSource
from fournos.insight.values import between, one_line, phase_of, spec_of, status_of

if TYPE_CHECKING:
    from fournos.api.appwrapper import AppWrapperSpec, AppWrapperStatus
    from fournos.api.minicluster import MiniClusterSpec, MiniClusterStatus
    from fournos.client.connection import ClientConnection
    from fournos.insight.appwrappers import WrappedComponent
    from fournos.insight.explanation import Explanation
    from fournos.systems.frameworks.kinds import Framework
    from fournos.systems.frameworks.queued import QueuedObject


_SUCCEEDED: Final = "Succeeded"
_FAILED: Final = "Failed"


class AppWrapperView(QueuedView):
    """A typed view of an AppWrapper as last read; `raw` is the whole object."""

    @property
    def spec(self) -> AppWrapperSpec:
        """The spec as a typed model."""
        from fournos.api.appwrapper import AppWrapperSpec

        return AppWrapperSpec.model_validate(spec_of(self.raw))

    @property
    def status(self) -> AppWrapperStatus:
        """The status as a typed model."""
        from fournos.api.appwrapper import AppWrapperStatus

        return AppWrapperStatus.model_validate(status_of(self.raw))

    @property
    def ended(self) -> bool:
        """True if the AppWrapper has succeeded or failed."""
        return self.phase in (_SUCCEEDED, _FAILED)

    @property
    def succeeded(self) -> bool:
        """True if the AppWrapper has succeeded."""
        return self.phase == _SUCCEEDED

    @property
    def message(self) -> str:
        """The message of the condition that explains the phase; "" if there is none."""
        from fournos.insight.appwrappers import why

        return why(self.raw)

    @property
    def resets(self) -> int:
        """How often the AppWrapper was reset after a failure that counts."""
        return int(status_of(self.raw).get("resettingCount") or 0)

    def _facts(self, now: datetime) -> list[tuple[str, str]]:
        from fournos.insight.appwrappers import kinds

        return [
            ("Queue", self.queue_name),
            ("Components", ", ".join(kinds(self.raw))),
            ("Resets", str(self.resets or "")),
        ]

    def _columns(self) -> dict[str, Any]:
        return {**super()._columns(), "queue": self.queue_name, "resets": self.resets}


class AsyncAppWrapper(AsyncWork, AppWrapperView):
    """The handle of one AppWrapper, identified by its UID."""

    _resource = APPWRAPPER
    _noun = "AppWrapper"
    _phases = OF_APPWRAPPERS

    @typed
    async def components(self) -> list[WrappedComponent]:
        """Returns the wrapped resources in their order, each with its state and its pods."""
        from fournos.insight.appwrappers import components, members

        await self.refresh()
        return components(self._raw, await members(self._client.api, self._raw))

    @typed
    async def explain(self) -> Explanation:
        """Explains why the AppWrapper waits, is reset or has failed, and what to do."""
        from fournos.insight.appwrappers import explained

        await self.refresh()
        explanation, _ = await explained(self._client.api, self._raw, datetime.now(UTC))
        return explanation

    async def _raise_failure(self) -> None:
        if self.phase == _FAILED:
            raise ObjectFailed(self, fix=f"see its components; why: fournos explain appwrapper/{self.name}")


class MiniClusterView(QueuedView):
    """A typed view of a MiniCluster as last read; `raw` is the whole object."""

    @property
    def spec(self) -> MiniClusterSpec:
        """The spec as a typed model."""
        from fournos.api.minicluster import MiniClusterSpec

        return MiniClusterSpec.model_validate(spec_of(self.raw))

    @property
    def status(self) -> MiniClusterStatus:
        """The status as a typed model."""
        from fournos.api.minicluster import MiniClusterStatus

        return MiniClusterStatus.model_validate(status_of(self.raw))

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

    def _facts(self, now: datetime) -> list[tuple[str, str]]:
        status = status_of(self.raw)
        return [
            ("Size", f"{self.size}, {self.ready} ready"),
            ("Exit code", "" if self.exit_code is None else str(self.exit_code)),
            ("Queue", self.queue_name),
            ("Ran", between(status.get("startedAt"), status.get("finishedAt"), now)),
        ]

    def _columns(self) -> dict[str, Any]:
        return {
            **super()._columns(),
            "size": self.size,
            "ready": self.ready,
            "exit_code": self.exit_code,
            "queue": self.queue_name,
        }


class AsyncMiniCluster(AsyncWork, MiniClusterView):
    """The handle of one MiniCluster, identified by its UID.

    A MiniCluster with spec.cleanup is deleted when it ends: `wait` then raises DeletedError.
    """

    _resource = MINICLUSTER
    _noun = "MiniCluster"
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
        async with aclosing(
            cast(Any, container_lines(self._client.api, source, tail, follow=follow))
        ) as lines:
            async for line in lines:
                yield line

    async def _log_source(self, rank: int, container: str | None, *, patient: bool) -> LogSource:
        """Returns the container; `patient` waits until it has started, or can no longer start.

        The pods are listed again with each change of the MiniCluster, and every few seconds.
        """
        from fournos.insight.errors import NoLogError
        from fournos.insight.miniclusters import log_source, pods

        async with aclosing(self._changes()) as changes:
            async for raw in changes:
                try:
                    source = log_source(
                        raw, await pods(self._client.api, raw), rank=rank, container=container
                    )
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


class ObjectView(QueuedView):
    """A view of an object of any kind as last read; `raw` is the whole object."""

    _resource: Resource
    _framework: Framework | None

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

    def _facts(self, now: datetime) -> list[tuple[str, str]]:
        return [("Kind", self.kind), ("Queue", self.queue_name)]


class AsyncObject(AsyncWork, ObjectView):
    """The handle of one object of any kind, identified by its UID."""

    def __init__(
        self, client: ClientConnection, raw: Obj, resource: Resource, framework: Framework | None = None
    ) -> None:
        super().__init__(client, raw)
        self._resource = resource
        self._framework = framework
        self._ends = framework is not None

    @property
    def _noun(self) -> str:  # type: ignore[override]
        return self._resource.kind

    @typed
    async def explain(self) -> Explanation:
        """Explains why the object waits, and what follows.

        Raises FournosError for a kind that is not queued by configuration.
        """
        from fournos.insight.frameworks import explain, gather

        if self._framework is None:
            raise FournosError(
                f"{self.kind} is not a kind that is queued by configuration",
                fix="name the operator's file of kinds: FOURNOS_FRAMEWORKS_FILE",
            )
        await self.refresh()
        return explain(await gather(self._client.api, self._framework, self._raw))

    async def _raise_failure(self) -> None:
        if self.ended and not self.succeeded:
            raise ObjectFailed(self, fix=f"why: fournos explain {self.kind}/{self.name}")

    def _plural(self) -> str:
        return "objects"
