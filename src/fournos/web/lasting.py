"""Long-lived responses: they end when the person may no longer read what they send."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from aiohttp import web

from fournos.engine.kube.errors import KubeError
from fournos.web.errors import PageError
from fournos.web.identity.people import People
from fournos.web.viewer import PersonRights, Right

CHECK: Final = 10.0
"""Seconds after which session and rights are checked before more is sent.

Permissions are kept for 30 seconds by the `Reviewer` and streams send at least every 15, so a tab without
changes shows what its person may no longer read for 45 seconds at most.
"""


CLASS: Final = 60.0
"""Seconds after which the class of permissions is found anew; its denials are kept for a short time alone."""


class Lasting:
    """The person of a request whose response is long-lived: session and rights, checked again and again."""

    def __init__(
        self,
        people: People,
        request: web.Request,
        rights: Collection[Right],
        *,
        permission_class: str = "",
    ) -> None:
        """`rights`: those that the person has; without one of them, or in another class, the answer ends."""
        self._people = people
        self._request = request
        self._rights = rights
        self._class = permission_class
        self._checked = self._found = self._now()

    async def goes_on(self) -> bool:
        """True if the person is logged in and has the rights.  Checks at most once in `CHECK` seconds.

        Also False if the check fails: the client sends its request again, whose response shows the error.
        """
        if self._now() - self._checked < CHECK:
            return True
        self._checked = self._now()
        try:
            rights = (await self._people.viewer(self._request)).rights
            found = await asyncio.gather(*(rights.may(*one) for one in self._rights))
            return all(found) and await self._same(rights)
        except (PageError, KubeError):
            return False

    async def _same(self, rights: PersonRights) -> bool:
        if not self._class or self._now() - self._found < CLASS:
            return True
        self._found = self._now()
        return await rights.permission_class() == self._class

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
