"""Student's t distribution and t-test, without a library.  Pure.

The regularized incomplete beta function is evaluated as a continued fraction by Lentz's algorithm (Numerical
Recipes, 6.4); its error is below 1e-10 in the range used here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

_TINY: Final = 1e-300
_EPSILON: Final = 1e-15
_MAX_STEPS: Final = 500


def t_test(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns the two-sided p-value of the hypothesis that both samples have the same mean.

    The variances are those of the samples (divided by n), as in Apache Otava, so that both agree.  Equal
    samples without spread give 1, different ones 0.  Samples with fewer than 3 values together give 1.
    """
    n, m = len(first), len(second)
    if n + m < 3:
        return 1.0
    mean_1, variance_1 = mean_and_variance(first)
    mean_2, variance_2 = mean_and_variance(second)
    freedom = n + m - 2
    pooled = ((n - 1) * variance_1 + (m - 1) * variance_2) / freedom
    error = math.sqrt(pooled * (1 / n + 1 / m))
    gap = abs(mean_1 - mean_2)
    if error <= 1e-12 * max(abs(mean_1), abs(mean_2)):  # rounding errors are no spread
        return 1.0 if gap <= 1e-12 * max(abs(mean_1), abs(mean_2)) else 0.0
    return two_sided_p(gap / error, freedom)


def mean_and_variance(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and the variance divided by n."""
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((value - mean) ** 2 for value in values) / len(values)


def two_sided_p(t: float, freedom: float) -> float:
    """Returns the probability of a value at least as far from 0 as `t`."""
    square = t * t
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square))


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """Returns the regularized incomplete beta function.

    `rest` is 1 - x, exactly: near x = 1 the subtraction would lose digits.
    """
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    front = math.exp(log_front)
    if x < (a + 1) / (a + b + 2):  # where the fraction converges fast
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, rest) / b


def _fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    result = d
    for step in range(1, _MAX_STEPS):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for term in (even, odd):
            d = 1 / _nonzero(1 + term * d)
            c = _nonzero(1 + term / c)
            result *= d * c
        if abs(d * c - 1) < _EPSILON:
            break
    return result


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
