"""The handle of an AppWrapper: resources that are queued, and that end, as one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from fournos.api.kinds import APPWRAPPER
from fournos.api.phase import OF_APPWRAPPERS
from fournos.client.errors import ObjectFailed, typed
from fournos.client.handles import AsyncWork
from fournos.client.views import QueuedView
from fournos.insight.values import spec_of, status_of

if TYPE_CHECKING:
    from fournos.api.appwrapper import AppWrapperSpec, AppWrapperStatus
    from fournos.insight.appwrappers import WrappedComponent
    from fournos.insight.explanation import Explanation

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
            raise ObjectFailed(self, fix=f"see its components; why: fournos appwrapper explain {self.name}")
