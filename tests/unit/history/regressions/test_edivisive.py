"""Change points: found where they are, not in noise, and not in spikes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from fournos.history.regressions.change_points import change_points, magnitude
from tests.unit.history.regressions.made import noisy


def indices(values: list[float], **more: float) -> list[int]:
    return [point.index for point in change_points(values, **more)]  # type: ignore[arg-type]


def test_a_step_is_found_where_it_is() -> None:
    (point,) = change_points(noisy((30, 100), (10, 90)))
    assert point.index == 30
    assert point.p < 1e-9
    assert 98 < point.before < 102
    assert 88 < point.after < 92


def test_several_steps_in_a_long_series() -> None:
    found = indices(noisy((60, 100), (40, 80), (70, 120), (30, 100), cv=0.01))
    assert found == [60, 100, 170]


def test_three_points_make_a_level_and_two_do_not() -> None:
    assert indices(noisy((30, 100), (3, 70))) == [30]
    assert indices(noisy((30, 100), (2, 70))) == []
    assert indices(noisy((30, 100), (2, 70)), min_segment=1) == [30]


def test_a_spike_is_no_change() -> None:
    for length in (1, 2):
        assert indices(noisy((25, 100), (length, 60), (25, 100))) == []
    assert indices(noisy((25, 100), (10, 60), (25, 100))) == [25, 35]


def test_an_outlier_does_not_make_a_level_of_the_points_after_it() -> None:
    """The mean of the last three is 7 % lower, their median is not."""
    assert indices([*noisy((30, 100)), 80, 99, 101], min_effect=0.03) == []
    assert indices([*noisy((30, 100)), 80, 99, 101], min_effect=0.03, min_segment=1) == [30]


def test_small_changes_are_left_out() -> None:
    values = noisy((40, 100), (40, 102), cv=0.003)
    assert indices(values) == [40]
    assert indices(values, min_effect=0.03) == []


def test_noise_has_few_change_points() -> None:
    alarms = sum(bool(indices(noisy((60, 100), seed=seed), min_effect=0.03)) for seed in range(200))
    assert alarms <= 10


def test_series_without_spread() -> None:
    assert indices([5.0] * 40) == []
    assert indices([0.0] * 40) == []
    assert indices([5.0] * 20 + [6.0] * 20) == [20]
    (point,) = change_points([0.0] * 20 + [6.0] * 20, min_effect=0.03)
    assert point.index == 20
    assert point.magnitude == float("inf")


def test_short_series() -> None:
    for length in range(6):
        assert indices([1.0, 9.0, 1.0, 9.0, 1.0][:length]) == []


def test_the_magnitude_goes_by_the_smaller_level() -> None:
    assert magnitude(100, 80) == magnitude(80, 100) == 0.25
    assert magnitude(0, 0) == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), max_size=70), st.integers(1, 5))
def test_whatever_the_values(values: list[float], least: int) -> None:
    found = change_points(values, min_segment=least)
    assert found == change_points(list(values), min_segment=least), "deterministic"
    borders = [0, *(point.index for point in found), len(values)]
    assert borders == sorted(borders)
    if found:
        assert min(later - earlier for earlier, later in pairwise(borders)) >= least
    assert all(point.p < 0.001 for point in found)


def test_the_unit_does_not_matter() -> None:
    values = noisy((30, 100), (10, 90))
    assert (
        indices(values) == indices([value * 1e-9 for value in values]) == indices([v * 1e9 for v in values])
    )
