"""The handle of a MiniCluster: a Flux cluster in the pods of a Job."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from fournos.api.kinds import MINICLUSTER
from fournos.api.phase import OF_MINICLUSTERS
from fournos.client.errors import ObjectFailed, typed, typed_iterator
from fournos.client.handles import PATIENCE, AsyncWork, Seconds
from fournos.client.logs import LogLine, container_lines
from fournos.client.views import QueuedView
from fournos.insight.failure import LogSource
from fournos.insight.values import between, spec_of, status_of

if TYPE_CHECKING:
    from fournos.api.minicluster import MiniClusterSpec, MiniClusterStatus


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
