"""What runs used: GPU-hours of a period."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from fournos.client.errors import typed
from fournos.client.history_requests import Requests

if TYPE_CHECKING:
    from fournos.history.usage import Usage


class AsyncUsage(Requests):
    """The part of `AsyncHistory` for usage."""

    @typed
    async def usage(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        everywhere: bool = False,
        namespace: str | None = None,
    ) -> Usage:
        """Returns the GPU-hours of jobs by owner, cluster, project and GPU type.

        The default period is the last seven days; a run counts with the part of its time within the period.
        `everywhere` means all namespaces, and needs the right in all of them.
        """
        from fournos.history.usage import Usage

        given = [(name, when.isoformat()) for name, when in (("since", since), ("until", until)) if when]
        where = "" if everywhere else f"/namespaces/{quote(namespace or self.namespace, safe='')}"
        found: Usage = await self._get(f"{where}/usage?{urlencode(given)}", Usage)
        return found
