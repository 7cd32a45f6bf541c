"""How Python's cycle collection treats a process that keeps many objects for long."""

from __future__ import annotations

import gc
from typing import Final

_COLLECT_EVERY: Final = (20_000, 20, 20)
"""Thresholds of the cycle collection.  A pass or a page makes thousands of objects and hardly any cycle."""


def collect_seldom() -> None:
    gc.set_threshold(*_COLLECT_EVERY)


def keep_objects() -> None:
    """Takes all present objects out of the search for cycles: the objects in complete caches stay.

    With 10,000 jobs in the caches each search for cycles among them takes a fifth of a second.
    """
    gc.collect()
    gc.freeze()
