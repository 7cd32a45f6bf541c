"""GPU-hours of a period."""

from __future__ import annotations

from fournos.history.usage import LOCKS, Share, Sum, added, together

SUMS = (
    Sum("owners", "ann", 1.0, 2),
    Sum("owners", "ben", 6.0, 1),
    Sum("owners", "ann", 3.0, 1),
    Sum("projects", "p", 10.0, 4),
    Sum(LOCKS, "ann", 8.0, 1),
)


def test_the_largest_share_comes_first() -> None:
    found = added(SUMS)
    assert found.owners == (Share("ben", 6.0, 1), Share("ann", 4.0, 3))
    assert (found.hours, found.runs) == (10.0, 4), "what locks held is in none of the others"
    assert found.locks == (Share("ann", 8.0, 1),)


def test_several_namespaces_are_added_up() -> None:
    assert together([added(SUMS[:2]), added(SUMS[2:])]) == added(SUMS)
    assert together([]) == added(())
