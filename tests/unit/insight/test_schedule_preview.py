"""The coming times of a schedule: offsets, clock changes, exclusions, jitter."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from fournos.insight.clock_changes import clock_changes
from fournos.insight.schedule_preview import Pause, ScheduledTime, clock_text, next_starts, preview
from fournos.systems.schedules.due import Plan, due
from fournos.systems.schedules.exclusions import ExcludedTimes

UTC_ZONE = ZoneInfo("Etc/UTC")


def plan(*expressions: str, zone: str = "Etc/UTC", **fields: object) -> Plan:
    return Plan(expressions, ZoneInfo(zone), **fields)  # type: ignore[arg-type]


def shown(rows: list[ScheduledTime]) -> list[tuple[str, str]]:
    return [(clock_text(row.clock), row.note) for row in rows]


SKIPPED = "skipped: the clock is set from 02:00 to 03:00; its jobs start at 03:00"
BERLIN_NIGHT = [
    ("Sat 2026-03-28 02:30+01:00", ""),
    ("Sun 2026-03-29 02:30", SKIPPED),
    ("Sun 2026-03-29 03:00+02:00", "for 02:30"),
    ("Mon 2026-03-30 02:30+02:00", ""),
]
APIA = "skipped: the clock is set from 00:00 to 2011-12-31 00:00"


@pytest.mark.parametrize(
    ("zone", "expression", "begin", "rows"),
    [
        pytest.param("Europe/Berlin", "30 2 * * *", "2026-03-28T00:00+01:00", BERLIN_NIGHT, id="spring"),
        pytest.param(
            "Europe/Berlin",
            "30 2 * * *",
            "2026-10-25T00:00+02:00",
            [
                ("Sun 2026-10-25 02:30+02:00", "twice on the clock: only the first counts"),
                ("Mon 2026-10-26 02:30+01:00", ""),
            ],
            id="autumn",
        ),
        pytest.param(
            "Europe/Berlin",
            "0 * * * *",
            "2026-03-29T01:00+01:00",
            [
                ("Sun 2026-03-29 01:00+01:00", ""),
                ("Sun 2026-03-29 02:00", "skipped: the clock is set from 02:00 to 03:00; no jobs"),
                ("Sun 2026-03-29 03:00+02:00", ""),
            ],
            id="hourly in spring",
        ),
        pytest.param(
            "Europe/Berlin",
            "0 * * * *",
            "2026-10-25T02:00+02:00",
            [
                ("Sun 2026-10-25 02:00+02:00", "first of two on the clock"),
                ("Sun 2026-10-25 02:00+01:00", "second of two on the clock"),
                ("Sun 2026-10-25 03:00+01:00", ""),
            ],
            id="hourly in autumn",
        ),
        pytest.param(
            "America/New_York",
            "30 2 * * *",
            "2026-03-08T00:00-05:00",
            [
                ("Sun 2026-03-08 02:30", SKIPPED),
                ("Sun 2026-03-08 03:00-04:00", "for 02:30"),
                ("Mon 2026-03-09 02:30-04:00", ""),
            ],
            id="New York in spring",
        ),
        pytest.param(
            "America/New_York",
            "30 1 * * *",
            "2026-11-01T00:00-04:00",
            [("Sun 2026-11-01 01:30-04:00", "twice on the clock: only the first counts")],
            id="New York in autumn",
        ),
        pytest.param(
            "Australia/Lord_Howe",
            "15 2 * * *",
            "2026-10-04T00:00+10:30",
            [
                (
                    "Sun 2026-10-04 02:15",
                    "skipped: the clock is set from 02:00 to 02:30; its jobs start at 02:30",
                ),
                ("Sun 2026-10-04 02:30+11:00", "for 02:15"),
                ("Mon 2026-10-05 02:15+11:00", ""),
            ],
            id="half an hour forward",
        ),
        pytest.param(
            "Australia/Lord_Howe",
            "0,45 1 * * *",
            "2026-04-05T00:00+11:00",
            [
                ("Sun 2026-04-05 01:00+11:00", ""),
                ("Sun 2026-04-05 01:45+11:00", "twice on the clock: only the first counts"),
                ("Mon 2026-04-06 01:00+10:30", ""),
            ],
            id="half an hour back",
        ),
        pytest.param(
            "Pacific/Apia",
            "0 2 * * *",
            "2011-12-29T00:00-10:00",
            [
                ("Thu 2011-12-29 02:00-10:00", ""),
                ("Fri 2011-12-30 02:00", f"{APIA}; its jobs start at 2011-12-31 00:00"),
                ("Sat 2011-12-31 00:00+14:00", "for 02:00"),
                ("Sat 2011-12-31 02:00+14:00", ""),
            ],
            id="a day that did not exist",
        ),
        pytest.param(
            "Africa/Cairo",
            "0 0 * * *",
            "2026-04-24T00:00+02:00",
            [
                (
                    "Fri 2026-04-24 00:00",
                    "skipped: the clock is set from 00:00 to 01:00; its jobs start at 01:00",
                ),
                ("Fri 2026-04-24 01:00+03:00", "for 00:00"),
                ("Sat 2026-04-25 00:00+03:00", ""),
            ],
            id="midnight",
        ),
        pytest.param(
            "Europe/Berlin",
            "*/5 2 * * *",
            "2026-03-29T00:00+01:00",
            [
                *(
                    (
                        f"Sun 2026-03-29 02:{minute:02}",
                        "skipped: the clock is set from 02:00 to 03:00; no jobs",
                    )
                    for minute in (0, 5, 10, 15)
                ),
                ("Sun 2026-03-29 02:20", "skipped: 8 times from here on; no jobs"),
                ("Mon 2026-03-30 02:00+02:00", ""),
            ],
            id="many",
        ),
    ],
)
def test_clock_changes_are_marked(
    zone: str, expression: str, begin: str, rows: list[tuple[str, str]]
) -> None:
    number = sum(len(clock) > len("Sun 2026-03-29 02:30") for clock, _ in rows)
    found = preview(plan(expression, zone=zone), datetime.fromisoformat(begin), number)
    assert shown(found) == rows
    # What is shown to start is what the operator starts: each time that is on a clock, and no other.
    assert [row.starts is not None for row in found] == [row.clock.tzinfo is not None for row in found]


def test_four_skipped_times_are_all_that_is_said() -> None:
    rows = preview(plan("*/15 2 * * *", zone="Europe/Berlin"), datetime(2026, 3, 29, tzinfo=UTC), 1)
    assert [f"{row.clock:%H:%M}" for row in rows] == ["02:00", "02:15", "02:30", "02:45", "02:00"]


def test_a_clock_that_is_never_set_has_no_changes() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    assert list(clock_changes(UTC_ZONE, begin, begin + timedelta(days=400))) == []


def test_each_change_is_found_to_the_minute() -> None:
    begin = datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)
    changes = clock_changes(ZoneInfo("Europe/Berlin"), begin, begin + timedelta(days=365))
    assert [(change.moment.isoformat(), change.skips) for change in changes] == [
        ("2026-03-29T01:00:00+00:00", True),
        ("2026-10-25T01:00:00+00:00", False),
    ]


DECEMBER = datetime(2026, 12, 23, tzinfo=UTC)


def test_exclusions_are_marked_with_what_excludes() -> None:
    excluded = ExcludedTimes(frozenset({date(2026, 12, 24)}), ((time(8), time(18)),))
    rows = preview(plan("0 2,12 * * *", excluded=excluded), DECEMBER, 4)
    assert [(row.note, row.starts is None) for row in rows] == [
        ("", False),
        ("excluded: 08:00 to 18:00", True),
        ("excluded: 2026-12-24", True),
        ("excluded: 2026-12-24", True),
    ]


def test_jitter_moves_the_start_and_may_move_it_into_an_exclusion() -> None:
    excluded = ExcludedTimes(windows=((time(2, 5), time(3)),))
    (row,) = preview(plan("0 2 * * *", jitter=timedelta(seconds=272)), DECEMBER, 1)
    assert row.starts == datetime(2026, 12, 23, 2, 4, 32, tzinfo=UTC)
    (row,) = preview(plan("0 2 * * *", jitter=timedelta(minutes=6), excluded=excluded), DECEMBER, 1)
    assert (row.starts, row.note) == (None, "excluded: 02:05 to 03:00")


def test_times_that_come_too_soon_are_marked() -> None:
    rows = preview(
        plan("0 */6 * * *", minimum_interval=timedelta(hours=12)),
        DECEMBER,
        4,
        last_start=datetime(2026, 12, 22, 18, tzinfo=UTC),
    )
    assert [row.starts is not None for row in rows] == [False, True, False, True]
    assert rows[0].note == "sooner than spec.minimumInterval"
    six_hourly = plan("0 */6 * * *", minimum_interval=timedelta(hours=12))
    starts = next_starts(six_hourly, DECEMBER, 2, last_start=DECEMBER - timedelta(hours=6), pause=None)
    assert [start.hour for start in starts] == [6, 18]


def test_a_last_start_after_what_is_asked_for_holds_nothing_back() -> None:
    nightly = plan("0 2 * * *", minimum_interval=timedelta(days=2))
    rows = preview(nightly, DECEMBER, 1, last_start=DECEMBER + timedelta(days=300))
    assert rows[0].starts is not None


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo"])
@pytest.mark.parametrize("expression", ["30 2 * * *", "0 0 * * *", "15 1,2 * * 0", "45 */7 * * *"])
def test_the_next_start_is_the_operator_s(zone: str, expression: str) -> None:
    """Around all changes of a year's clock, with what the operator notes as `status.nextTime`."""
    excluded = ExcludedTimes(windows=((time(1, 10), time(1, 20)),))
    nightly = plan(expression, zone=zone, jitter=timedelta(minutes=9), excluded=excluded)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    changes = list(clock_changes(nightly.zone, begin, begin + timedelta(days=365)))
    assert len(changes) == 2
    for change in changes:
        for hours in range(-30, 30):
            now = change.moment + timedelta(hours=hours, minutes=9, seconds=hours % 2)
            expected = due(nightly, floor=now - timedelta(hours=1), last_start=None, now=now).next
            (start,) = next_starts(nightly, now, 1, last_start=None, pause=None)
            assert start.astimezone(UTC) == expected


def test_a_suspension_is_marked_until_its_end() -> None:
    pause = Pause(datetime(2026, 12, 24, 2, tzinfo=UTC))
    rows = preview(plan("0 2 * * *"), DECEMBER, 3, pause=pause)
    assert [row.note for row in rows] == ["suspended", "suspended", ""], (
        "a time at the end is not made up for"
    )
    starts = next_starts(plan("0 2 * * *"), DECEMBER, 1, last_start=None, pause=pause)
    assert starts == [datetime(2026, 12, 25, 2, tzinfo=UTC)]
    assert next_starts(plan("0 2 * * *"), DECEMBER, 1, last_start=None, pause=Pause()) == []


def test_the_next_starts_leave_out_what_is_excluded_and_are_in_the_zone() -> None:
    excluded = ExcludedTimes(frozenset({date(2026, 12, 24)}))
    nightly = plan("0 2 * * *", zone="Europe/Berlin", excluded=excluded)
    starts = next_starts(nightly, DECEMBER, 2, last_start=None, pause=None)
    assert [start.isoformat() for start in starts] == [
        "2026-12-23T02:00:00+01:00",
        "2026-12-25T02:00:00+01:00",
    ]


def test_next_starts_are_before_the_end() -> None:
    end = DECEMBER.replace(hour=2) + timedelta(days=3)
    starts = next_starts(plan("0 2 * * *"), DECEMBER, 100, last_start=None, pause=None, end=end)
    assert starts[-1] == end - timedelta(days=1)
