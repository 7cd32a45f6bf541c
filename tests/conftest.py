"""What all tests share."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, settings

from fournos.engine.runtime.process import collect_seldom

# A busy machine is not a fault, and a test says the same every time: take `derandomize` out to look for more.
settings.register_profile(
    "fournos", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fournos")


def pytest_configure(config: pytest.Config) -> None:
    collect_seldom()
    # Else pytest-asyncio makes a loop to put back after the first test and never closes it, and the
    # warning about that is an error here.
    asyncio.set_event_loop(None)
