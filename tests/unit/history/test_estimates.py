"""An estimate is a sentence: how long a job has run, or its place, and how long its kind takes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fournos.history.estimates import Typical, sentence
from tests.history import at

NOW = at(0)
RUNNING = Typical("load", "ns", "u", NOW - timedelta(minutes=25), 2400.0, 12)
WAITING = Typical("load", "ns", "u", None, 2400.0, 12)


@pytest.mark.parametrize(
    ("job", "place", "expected"),
    [
        (RUNNING, None, "load has run 25m, its kind takes 40m (median of 12)."),
        (
            WAITING,
            3,
            "load has place 3 in its queue, its kind takes 40m (median of 12): it starts in about 2h "
            "if those before it take as long.",
        ),
        (WAITING, None, "load waits, its kind takes 40m (median of 12)."),
        (
            Typical("load", "ns", "u", None),
            2,
            "load has place 2 in its queue, too few runs of its kind have ended to say how long it takes.",
        ),
        (
            Typical("load", "ns", "u", NOW + timedelta(seconds=5)),
            None,
            "load has run 0s, too few runs of its kind have ended to say how long it takes.",
        ),
    ],
)
def test_the_sentence(job: Typical, place: int | None, expected: str) -> None:
    assert sentence(job, NOW, place) == expected
