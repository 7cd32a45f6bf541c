"""Estimates as texts.  Pure."""

from __future__ import annotations

from datetime import datetime

from fournos.history.estimates.simulate import Estimate, Range, WouldStart
from fournos.insight.values import short


def when(times: Range | None, now: datetime) -> str:
    """The time of a range from now on: the median, and until when nine of ten are there; "-" if not known."""
    if times is None:
        return "-"
    median, p90 = (short(max(one, now) - now) for one in (times.median, times.p90))
    return f"in {median}" if median == p90 else f"in {median} (90%: {p90})"


def sentence(estimate: Estimate, now: datetime, *, at_once: bool = False) -> str:
    """When a job starts and ends, or why that is not known, in one sentence.

    `at_once`: it starts now, which is said already.
    """
    parts = [
        f"{verb} {when(times, now)}"
        for verb, times in (("starts", None if at_once else estimate.start), ("ends", estimate.end))
        if times
    ]
    if estimate.basis:
        parts.append(f"from {estimate.basis}")
    if estimate.reason:
        parts.append(
            f"no estimate of the {'end' if estimate.start or at_once else 'start'}: {estimate.reason}"
        )
    text = "; ".join(parts)
    return text[:1].upper() + text[1:] + "." if text else ""


def answer(answered: WouldStart, now: datetime) -> str:
    """Whether a job that is not submitted would start now, in one sentence."""
    where = f" on {answered.flavor}" if answered.flavor else ""
    verdict = f"It would start now{where}." if answered.now else "It would wait."
    return f"{verdict} {sentence(answered.estimate, now, at_once=answered.now)}".rstrip()
