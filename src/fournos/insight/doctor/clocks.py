"""Check of the local clock.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from fournos.engine.kube.errors import KubeError
from fournos.insight.doctor.facts import DoctorFacts
from fournos.insight.doctor.finding import DoctorFinding, Level, unreadable
from fournos.insight.values import short

AREA: Final = "Clocks"
_NOTABLE: Final = timedelta(seconds=5)
_LARGE: Final = timedelta(minutes=1)
"""Tokens and certificates are valid from the second they are made: a larger difference gets them refused."""


def check_clocks(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Compares the local clock with the API server's, whose header has whole seconds."""
    what = "local clock"
    if isinstance(facts.server_time, KubeError):
        yield unreadable(AREA, what, facts.server_time)
        return
    if facts.server_time is None or facts.before is None or facts.after is None:
        yield DoctorFinding(AREA, what, Level.UNKNOWN, "the API server's answer has no date")
        return
    early = facts.before - (facts.server_time + timedelta(seconds=1))
    late = facts.server_time - facts.after
    off = max(early, late, timedelta())
    text = f"{short(off)} {'ahead of' if early > late else 'behind'} the API server's"
    fix = "synchronize this machine's clock (NTP), or the API server's"
    if off > _LARGE:
        yield DoctorFinding(AREA, what, Level.FAULT, f"{text}: tokens and certificates may be refused", fix)
    elif off > _NOTABLE:
        yield DoctorFinding(AREA, what, Level.WARNING, f"{text}: ages and durations are wrong by that", fix)
    else:
        yield DoctorFinding(AREA, what, Level.OK, f"within {short(_NOTABLE)} of the API server's")
