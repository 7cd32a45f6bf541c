"""Estimates as texts.  Pure."""

from __future__ import annotations

from datetime import datetime

from fournos.history.estimates.simulate import Estimate, Range, WouldStart
from fournos.insight.values import short


def when(found: Range | None, now: datetime) -> str:
    """The time of a range from now on: the median, and until when nine of ten are there; "-" if not known."""
    if found is None:
        return "-"
    median, p90 = (short(max(one, now) - now) for one in (found.median, found.p90))
    return f"in {median}" if median == p90 else f"in {median} (90%: {p90})"


def sentence(found: Estimate, now: datetime, *, at_once: bool = False) -> str:
    """When a job starts and ends, or why that is not known, in one sentence.

    `at_once`: it starts now, which is said already.
    """
    parts = [
        f"{verb} {when(times, now)}"
        for verb, times in (("starts", None if at_once else found.start), ("ends", found.end))
        if times
    ]
    if found.basis:
        parts.append(f"from {found.basis}")
    if found.reason:
        parts.append(f"no estimate of the {'end' if found.start or at_once else 'start'}: {found.reason}")
    text = "; ".join(parts)
    return text[:1].upper() + text[1:] + "." if text else ""


def answer(found: WouldStart, now: datetime) -> str:
    """Whether a job that is not submitted would start now, in one sentence."""
    where = f" on {found.flavor}" if found.flavor else ""
    verdict = f"It would start now{where}." if found.now else "It would wait."
    return f"{verdict} {sentence(found.estimate, now, at_once=found.now)}".rstrip()
