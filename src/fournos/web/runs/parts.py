"""The parts of a page that are read by requests: side by side, each with its own error in its place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from fournos.client.errors import FournosError
from fournos.kube.errors import KubeError
from fournos.web.errors import page_error

PATIENCE: Final = 3.0
"""Seconds after which a page is shown without a part that has not been read."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """What was read, or why it was not: a missing right is not an absent object."""

    value: T | None = None
    problem: str = ""
    fix: str = ""
    status: int = 200
    """As in HTTP: 403 is a missing right, 404 an absent object."""

    @property
    def absent(self) -> bool:
        """True if there is no such thing."""
        return self.status == NOT_FOUND


NOT_FOUND: Final = 404
_LATE: Final = 504


async def part(reading: Awaitable[T], *, patience: float = PATIENCE) -> Part[T]:
    """Awaits the reading of one part."""
    try:
        async with asyncio.timeout(patience):
            return Part(await reading)
    except TimeoutError:
        return Part(
            problem=f"It was not read within {patience:g} seconds.",
            fix="Load the page again to try once more.",
            status=_LATE,
        )
    except (KubeError, FournosError) as error:
        found = page_error(error)
        assert found is not None  # each KubeError and FournosError has a page
        return Part(problem=found.message, fix=found.fix, status=found.status)
