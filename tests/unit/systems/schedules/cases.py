"""For each rule of a FournosSchedule: an object that it refuses, and one that its message recommends.

One table for the check in Python (unit tests) and for a real API server (integration tests).
"""

from __future__ import annotations

from typing import Any

from tests.unit.systems.schedules.actors import schedule

CREATIONS: list[tuple[str, Any, Any]] = [
    ("name-length", schedule(name="n" * 64), schedule(name="n" * 63)),
    ("schedules-dialect", schedule(schedules=["0 0 L * *"]), schedule(schedules=["0 0 28-31 * *"])),
    ("schedules-dialect", schedule(schedules=["0 2 * * 5#2"]), schedule(schedules=["0 2 8-14 * FRI"])),
    ("schedules-dialect", schedule(schedules=["@reboot"]), schedule(schedules=["@daily", "@yearly"])),
    (
        "schedules-dialect",
        schedule(schedules=["0 0 2 * * *"]),
        schedule(schedules=["*/15 8-18 * JAN-JUN 1-5"]),
    ),
    ("timezone-text", schedule(timeZone="CET "), schedule(timeZone="America/Argentina/Buenos_Aires")),
]
