"""The status draft of a FournosCluster. Each pass has one draft and writes it once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

from fournos.api.fournoscluster import Connection, FournosClusterStatus, Lock, StatusHardware
from fournos.engine.runtime.status_draft import Draft, read

MESSAGE_MAX = 1024


class StatusDraft(Draft):
    """A copy of the status with the changes of this pass, and the events to record with them."""

    # --- reading ---

    @property
    def lock(self) -> Lock | None:
        return self._read("lock").lock

    @property
    def owner_set_at(self) -> datetime | None:
        return self._read("ownerSetAt").owner_set_at

    @property
    def lock_expires_at(self) -> datetime | None:
        return self._read("lockExpiresAt").lock_expires_at

    @property
    def connection(self) -> Connection:
        return self._read("connection").connection or Connection()

    @property
    def hardware(self) -> StatusHardware:
        return self._read("hardware").hardware or StatusHardware()

    @property
    def decommission(self) -> str | None:
        return self._read("decommission").decommission

    @property
    def discover_requested(self) -> str | None:
        return self._read("discoverRequested").discover_requested

    def _read(self, name: str) -> FournosClusterStatus:
        return read(FournosClusterStatus, self._status, name)

    # --- changing ---

    def group(self, name: str) -> dict[str, Any]:
        """Returns a copy of an object field, to be changed and put back."""
        return dict(self._status.get(name) or {})

    def condition(self, type_: str, status: str | bool, reason: str, message: str = "") -> Self:
        return super().condition(type_, status, reason, message[:MESSAGE_MAX])

    def put_condition(self, type_: str, status: str, reason: str, message: str) -> Self:
        """Sets a condition, and records an event if its reason has changed."""
        if self.reason_of(type_) != reason:
            self.event(reason, message, warning=status == "False")
        return self.condition(type_, status, reason, message)

    def render(self) -> Mapping[str, Any]:
        status = super().render()
        return status if self._generation is None else {**status, "observedGeneration": self._generation}
