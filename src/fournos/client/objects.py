"""The handle of an object of any kind, such as one that is queued by configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fournos.client.errors import FournosError, ObjectFailed, typed
from fournos.client.handles import AsyncWork, HandleConnection
from fournos.client.views import QueuedView
from fournos.engine.kube.resource import Obj, Resource
from fournos.insight.values import one_line, phase_of, status_of

if TYPE_CHECKING:
    from datetime import datetime

    from fournos.insight.explanation import Explanation
    from fournos.systems.frameworks.kinds import Framework
    from fournos.systems.frameworks.queued import QueuedObject


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
        self, client: HandleConnection, raw: Obj, resource: Resource, framework: Framework | None = None
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
            raise ObjectFailed(self, fix=f"why: fournos frameworks explain {self.kind}/{self.name}")

    def _plural(self) -> str:
        return "objects"
