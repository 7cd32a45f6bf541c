"""The status of a FournosCluster under construction: one draft a pass, written once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self

from fournos.api.times import parse_time
from fournos.runtime.draft import Draft

MESSAGE_MAX = 1024


class StatusDraft(Draft):
    """A copy of the status with the changes of this pass, and the events that go with them."""

    def get(self, name: str) -> Any:
        return self._status.get(name)

    def group(self, name: str) -> dict[str, Any]:
        """A copy of a field that is an object."""
        return dict(self._status.get(name) or {})

    def time(self, name: str) -> datetime | None:
        found = self._status.get(name)
        return parse_time(found) if found else None

    def condition(self, type_: str, status: str | bool, reason: str, message: str = "") -> Self:
        return super().condition(type_, status, reason, message[:MESSAGE_MAX])

    def tell(self, type_: str, status: str, reason: str, message: str) -> Self:
        """A condition, with an event when its reason is news."""
        if self.reason_of(type_) != reason:
            self.note(reason, message, warning=status == "False")
        return self.condition(type_, status, reason, message)

    def render(self) -> Mapping[str, Any]:
        status = super().render()
        return status if self._generation is None else {**status, "observedGeneration": self._generation}
