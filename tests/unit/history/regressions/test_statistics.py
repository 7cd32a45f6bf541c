"""Noise, the t-test, and the correction for many KPIs."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fournos.history.regressions.change_points import band, holm, limit, noise, relative, t_test, two_sided_p


@pytest.mark.parametrize(
    ("t", "freedom", "p"),
    [
        # from tables of the distribution, and closed forms: 1 degree of freedom is Cauchy's
        (1.0, 1, 0.5),
        (12.706, 1, 0.05),
        (2.228, 10, 0.05),
        (3.169, 10, 0.01),
        (4.587, 10, 0.001),
        (2.750, 30, 0.01),
        (3.291, 100_000, 0.001),
        (0.0, 5, 1.0),
    ],
)
def test_the_t_distribution(t: float, freedom: int, p: float) -> None:
    assert two_sided_p(t, freedom) == pytest.approx(p, rel=2e-3)


@given(st.floats(0, 50), st.integers(1, 400))
@example(1e-8, 1)
def test_the_t_distribution_agrees_with_its_integral(t: float, freedom: int) -> None:
    """For 2 degrees of freedom there is a closed form; for all, p falls from 1 to 0."""
    assert two_sided_p(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-12)
    assert 0 <= two_sided_p(t + 0.1, freedom) <= two_sided_p(t, freedom) <= 1


def test_samples_without_spread() -> None:
    assert t_test([5.0] * 4, [5.0] * 4) == 1
    assert t_test([0.0] * 4, [0.0] * 3) == 1
    assert t_test([5.0] * 4, [6.0] * 3) == 0
    assert t_test([1.0], [2.0]) == 1
    assert t_test([0.1 + 0.2] * 5, [0.3] * 5) == 1, "rounding is no change"


def test_noise_ignores_outliers() -> None:
    values = [100, 101, 99, 102, 98, 100, 101, 99, 102, 98]
    assert noise(values).sigma == pytest.approx(1.4826 * 1, rel=1e-3)
    assert noise([*values, 10_000]).sigma == pytest.approx(noise(values).sigma, rel=0.6)
    assert noise([1, 1, 1, 1, 1, 1, 1, 1, 1, 11]).sigma == pytest.approx(math.sqrt(math.pi / 2))
    assert noise([7.0] * 10).sigma == 0


def test_the_band() -> None:
    values = [100, 101, 99, 102, 98, 100, 101, 99, 102, 98]
    found = band(values)
    assert found
    assert found.high - found.centre == pytest.approx(3.5 * 1.4826, rel=1e-3)
    assert band(values[:9]) is None, "not enough history"
    flat = band([50.0] * 10)
    assert flat
    assert (flat.low, flat.high) == pytest.approx((48.5, 51.5)), "zero spread leaves the minimum effect"
    zero = band([0.0] * 10)
    assert zero
    assert 0.0 in zero
    assert 1e-9 not in zero
    assert -1e-9 not in zero
    negative = band([-100.0] * 10)
    assert negative
    assert (negative.low, negative.high) == pytest.approx((-103, -97))


def test_many_kpis_have_the_false_alarms_of_one() -> None:
    one = NormalDist().cdf(-3.5)
    assert limit(1) == pytest.approx(3.5)
    assert 100 * NormalDist().cdf(-limit(100)) == pytest.approx(one, rel=1e-6)
    assert limit(0) == limit(1)


def test_holm() -> None:
    assert holm({"a": 0.0009}, 0.001) == {"a"}
    assert holm({"a": 0.0009, "b": 0.5}, 0.001) == set()
    assert holm({"a": 0.0001, "b": 0.0004, "c": 0.0009, "d": 0.5}, 0.001) == {"a"}
    assert holm({"a": 1e-9, "b": 0.0004, "c": 0.0009}, 0.001) == {"a", "b", "c"}
    assert holm({}, 0.001) == set()


def test_relative_changes() -> None:
    assert relative(100, 90) == pytest.approx(-0.1)
    assert relative(-100, -90) == pytest.approx(0.1)
    assert relative(0, 0) == 0
    assert relative(0, 5) is None
