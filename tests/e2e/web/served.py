"""A server of the page, as tabs know it."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import StorageState


@dataclass(frozen=True)
class Served:
    """Its address and the cookies of a login."""

    base: str
    state: StorageState
