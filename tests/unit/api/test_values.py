"""Durations, times to live, quantities."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fournos.engine.api.values import format_duration, parse_duration, parse_quantity, parse_ttl


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("30s", 30),
        ("1h30m", 5400),
        ("25h0m0s", 90000),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("250ms", 0.25),
        ("1h1h", 7200),
        ("-1m", -60),
        ("+1m", 60),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("1000ns", 1e-6),
    ],
)
def test_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "1", "s", "1d", "1h ", " 1h", "1h-1m", "--1h", "1,5h", ".h", "9999999h", "١h"]
)
def test_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (30, "30s"),
        (60, "1m0s"),
        (5400, "1h30m0s"),
        (90000, "25h0m0s"),
        (0.25, "250ms"),
        (0.0015, "1.5ms"),
        (1e-6, "1µs"),
        (61.5, "1m1.5s"),
        (-60, "-1m0s"),
    ],
)
def test_duration_as_go_prints_it(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


@given(st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000)))
def test_durations_survive(length: timedelta) -> None:
    assert parse_duration(format_duration(length)) == length


def test_ttl() -> None:
    assert parse_ttl("30m") == timedelta(minutes=30)
    assert parse_ttl("12h") == timedelta(hours=12)
    assert parse_ttl("7d") == timedelta(days=7)
    for text in ("", "1", "1s", "1h30m", "-1m", "1.5h", "9" * 20 + "d"):
        with pytest.raises(ValueError, match="time to live"):
            parse_ttl(text)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (2, "2"),
        ("2", "2"),
        ("500m", "0.5"),
        ("1k", "1000"),
        ("16Gi", str(16 * 2**30)),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1E", str(10**18)),
        ("-1.5M", "-1500000"),
        ("1n", "0.000000001"),
        (".5", "0.5"),
    ],
)
def test_quantity(value: str | int, number: str) -> None:
    assert parse_quantity(value) == Decimal(number)


@pytest.mark.parametrize("value", ["", "m", "1 Gi", "1g", "1KB", "ten", "1e", "--1", True])
def test_no_quantity(value: str) -> None:
    with pytest.raises(ValueError, match="quantity"):
        parse_quantity(value)
