"""How long runs waited, as counts that add up."""

from __future__ import annotations

import pytest

from fournos.history.waited import EDGES, Waited, added_waits


def counts(**numbers: int) -> tuple[int, ...]:
    """`numbers`: s5=3 are three runs of at most five seconds, more=1 is one beyond all classes."""
    by_edge = {int(name[1:]): number for name, number in numbers.items() if name != "more"}
    return (*(by_edge.get(edge, 0) for edge in EDGES), numbers.get("more", 0))


@pytest.mark.parametrize(
    ("waited", "share", "seconds"),
    [
        (counts(s1=1), 1.0, 1.0),
        (counts(s10=2), 0.5, 7.5),
        (counts(s10=8, s60=2), 0.8, 10.0),
        (counts(s10=8, s60=2), 0.9, 45.0),
        (counts(more=4), 0.9, float(EDGES[-1])),
    ],
)
def test_a_share_of_the_runs_waited_no_longer(waited: tuple[int, ...], share: float, seconds: float) -> None:
    assert Waited("Quota", waited).within(share) == pytest.approx(seconds)


def test_counts_of_namespaces_add_up_and_the_longest_cause_is_first_after_all_together() -> None:
    parts = [
        Waited("Quota", counts(s60=3)),
        Waited("", counts(s60=3, s120=1)),
        Waited("Lock", counts(s3600=1)),
        Waited("Quota", counts(s120=1)),
        Waited("Retry", counts()),
    ]
    added = added_waits(parts)
    assert [waited.cause for waited in added] == ["", "Lock", "Quota"]
    assert added[2] == Waited("Quota", counts(s60=3, s120=1)) and added[2].runs == 4
