"""Where a page is served, and how a browser comes to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from playwright.sync_api import StorageState


@dataclass(frozen=True)
class Served:
    """A running page."""

    base: str
    state: StorageState | None
    """The cookies of `fournos web`."""
    headers: dict[str, str] = field(default_factory=dict)
    """What a proxy in front adds to each request."""
