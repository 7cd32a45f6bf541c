"""The parts of a page that are read by requests: side by side, each with its own error in its place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from fournos.client.errors import FournosError, NoHistoryError
from fournos.engine.kube.errors import KubeError
from fournos.web.errors import PageError, page_error

PATIENCE: Final = 3.0
"""Seconds after which a page is shown without a part that has not been read."""
_NOT_FOUND: Final = 404

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class PagePart(Generic[T]):
    """What was read, or why it was not: a missing right is not an absent object."""

    value: T | None = None
    error: PageError | None = None
    no_history: bool = False
    """True if the cluster has no history."""

    @property
    def absent(self) -> bool:
        """True if there is no such thing."""
        return self.error is not None and self.error.status == _NOT_FOUND

    @property
    def problem(self) -> PageError | None:
        """Why it cannot be shown; None if it was read, or if there is no such thing."""
        return None if self.absent else self.error

    def map(self, change: Callable[[T], U]) -> PagePart[U]:
        """The same part with a changed value."""
        value = None if self.value is None else change(self.value)
        return PagePart(value, self.error, self.no_history)


async def part(reading: Awaitable[T], *, patience: float = PATIENCE) -> PagePart[T]:
    """Awaits the reading of one part."""
    try:
        async with asyncio.timeout(patience):
            return PagePart(await reading)
    except TimeoutError:
        late = f"it was not read within {patience:g} seconds"
        return PagePart(error=PageError(504, "Too late", late, "Load the page again to try once more."))
    except (KubeError, FournosError, PageError) as error:
        return PagePart(error=page_error(error), no_history=isinstance(error, NoHistoryError))
