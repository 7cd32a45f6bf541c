"""Times of expressions, above all at both clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile

import pytest

from fournos.systems.schedules.dialect import MACROS, cron, times, zone

CHANGES = [
    # zone, expression, a moment before the change, the next times in local time
    ("Europe/Berlin", "30 2 * * *", "2026-03-28T12", ["29T03:00+02:00", "30T02:30+02:00"]),
    ("Europe/Berlin", "30 2 * * *", "2026-10-24T12", ["25T02:30+02:00", "26T02:30+01:00"]),
    ("Europe/Berlin", "*/30 2 * * *", "2026-03-28T12", ["30T02:00+02:00", "30T02:30+02:00"]),
    (
        "Europe/Berlin",
        "*/30 2 * * *",
        "2026-10-24T12",
        ["25T02:00+02:00", "25T02:30+02:00", "25T02:00+01:00", "25T02:30+01:00", "26T02:00+01:00"],
    ),
    (
        "Europe/Berlin",
        "0 * * * *",
        "2026-10-24T23:30",
        ["25T02:00+02:00", "25T02:00+01:00", "25T03:00+01:00"],
    ),
    ("Europe/Berlin", "0,30 2 * * *", "2026-03-28T12", ["29T03:00+02:00", "30T02:00+02:00"]),
    ("America/New_York", "30 2 * * *", "2026-03-07T12", ["08T03:00-04:00", "09T02:30-04:00"]),
    ("America/New_York", "30 1 * * *", "2026-10-31T12", ["01T01:30-04:00", "02T01:30-05:00"]),
    # A change by half an hour.
    ("Australia/Lord_Howe", "0 2 * * *", "2026-10-03T00", ["04T02:30+11:00", "05T02:00+11:00"]),
    ("Australia/Lord_Howe", "45 1 * * *", "2026-04-04T00", ["05T01:45+11:00", "06T01:45+10:30"]),
    # Changes at midnight.
    ("America/Santiago", "30 0 * * *", "2026-09-05T18", ["06T01:00-03:00", "07T00:30-03:00"]),
    ("America/Santiago", "30 23 * * *", "2026-04-04T18", ["04T23:30-03:00", "05T23:30-04:00"]),
    ("Asia/Beirut", "0 0 * * *", "2026-03-28T12", ["29T01:00+03:00", "30T00:00+03:00"]),
    ("Asia/Beirut", "30 23 * * *", "2026-10-24T12", ["24T23:30+03:00", "25T23:30+02:00"]),
    # A day that was skipped: Samoa crossed the date line.
    ("Pacific/Apia", "30 2 * * *", "2011-12-29T20", ["31T00:00+14:00", "31T02:30+14:00", "01T02:30+14:00"]),
    ("Pacific/Apia", "0 12 * * *", "2011-12-29T23", ["31T00:00+14:00", "31T12:00+14:00"]),
]
ZONES = sorted({row[0] for row in CHANGES})


@pytest.mark.parametrize(("name", "expression", "after", "expected"), CHANGES)
def test_clock_changes(name: str, expression: str, after: str, expected: list[str]) -> None:
    begin = datetime.fromisoformat(after).replace(tzinfo=UTC)
    found = islice(times([cron(expression)], zone(name), begin), len(expected))
    assert [moment.astimezone(zone(name)).isoformat(timespec="minutes")[8:] for moment in found] == expected


def test_six_zones_are_covered() -> None:
    assert len(ZONES) == 6


@pytest.mark.parametrize(
    "expression", ["30 2 * * *", "0,30 1-3 * * *", "*/20 * * * *", "0 0 * * *", "@hourly"]
)
@pytest.mark.parametrize(("name", "after"), sorted({(row[0], row[2]) for row in CHANGES}))
def test_the_times_are_the_same_wherever_the_search_begins(expression: str, name: str, after: str) -> None:
    """A restart in the middle of a change must neither lose a time nor find one more."""
    begin = datetime.fromisoformat(after).replace(tzinfo=UTC)
    end = begin + timedelta(days=2)

    def between(start: datetime) -> list[datetime]:
        return list(takewhile(lambda moment: moment <= end, times([cron(expression)], zone(name), start)))

    whole = between(begin)
    for minutes in range(0, 48 * 60, 47):
        start = begin + timedelta(minutes=minutes)
        assert between(start) == [moment for moment in whole if moment > start], start


@pytest.mark.parametrize("name", ["Etc/UTC", "Pacific/Auckland", "Pacific/Pago_Pago"])
def test_the_times_end_before_the_last_year_that_there_is(name: str) -> None:
    """So that a jitter can be added to each."""
    yearly = list(times([cron("0 12 31 12 *")], zone(name), datetime(9995, 6, 1, tzinfo=UTC)))
    assert [moment.astimezone(zone(name)).year for moment in yearly] == [9995, 9996, 9997, 9998]
    last = list(times([cron("0 0 29 2 *")], zone(name), datetime(9990, 1, 1, tzinfo=UTC)))
    assert [moment.astimezone(zone(name)).year for moment in last] == [9992, 9996]
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert list(times([cron("* * * * *")], zone(name), end)) == []


def test_several_expressions_are_merged_and_a_common_time_counts_once() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    found = islice(times([cron("0 6 * * *"), cron("0 */6 * * *")], zone("Etc/UTC"), begin), 4)
    assert [moment.hour for moment in found] == [6, 12, 18, 0]


def test_the_names_of_common_times() -> None:
    begin = datetime(2026, 1, 14, 12, 30, tzinfo=UTC)
    found = {name: next(times([cron(name)], zone("Etc/UTC"), begin)).isoformat()[:16] for name in MACROS}
    assert found == {
        "@hourly": "2026-01-14T13:00",
        "@daily": "2026-01-15T00:00",
        "@weekly": "2026-01-18T00:00",
        "@monthly": "2026-02-01T00:00",
        "@yearly": "2027-01-01T00:00",
    }


@pytest.mark.parametrize("text", ["0 0 * JUL MON-FRI", "0,30 8-18/2 1,15 * *", "0 0 29 2 *", "5 4 * * 7"])
def test_what_the_dialect_has(text: str) -> None:
    assert cron(text) == text


REFUSED = """
0 0 L * *
0 0 * * 5L
0 0 * * 5#2
0 0 LW * *
0 0 ? * *
* * * * * *
0 0 * *
@reboot
@midnight
61 * * * *
0 24 * * *
0 0 31 2 *
0 0 * * mon
0 0 * * 8
*/0 * * * *
"""


@pytest.mark.parametrize("text", ["", *REFUSED.strip().splitlines()])
def test_what_it_has_not_is_refused_with_its_name(text: str) -> None:
    with pytest.raises(ValueError, match=r"five fields as in Debian's cron.*L, W, # and a field of seconds"):
        cron(text)


@pytest.mark.parametrize("name", ["CEST+", "Europe/Bonn", "", "../etc/passwd", "Europe"])
def test_a_zone_that_does_not_exist(name: str) -> None:
    with pytest.raises(ValueError, match="no time zone of the IANA database"):
        zone(name)
