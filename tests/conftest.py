"""What all tests share."""

from __future__ import annotations

import asyncio

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # Else pytest-asyncio makes a loop to put back after the first test and never closes it, and the
    # warning about that is an error here.
    asyncio.set_event_loop(None)
