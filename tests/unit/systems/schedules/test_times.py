"""Times of expressions, above all at both clock changes."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import islice, takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fournos.systems.schedules.times import MACROS, MOST_COUNTED, Due, Plan, cron, due, times, zone

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
    """So that a deadline can be added to each."""
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


# --- which time is due: the one function for start, restart, relist, resume and edit ---------------------


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def plan(*expressions: str, where: str = "Etc/UTC", **fields: Any) -> Plan:
    return Plan(tuple(map(cron, expressions or ("0 2 * * *",))), zone(where), **fields)


def look(the_plan: Plan, floor: str, now: str) -> Due:
    return due(the_plan, floor=at(floor), now=at(now))


def test_a_time_that_has_come_is_due_and_the_next_is_known() -> None:
    found = look(plan(), "2026-05-01T02:00", "2026-05-02T02:00:01")
    assert (found.time, found.missed, found.next) == (at("2026-05-02T02:00"), 0, at("2026-05-03T02:00"))


def test_before_it_nothing_is_due() -> None:
    assert look(plan(), "2026-05-01T02:00", "2026-05-02T01:59:59") == Due(next=at("2026-05-02T02:00"))


def test_a_time_that_was_dealt_with_is_never_due_again_even_if_the_clock_is_set_back() -> None:
    for now in ("2026-05-02T02:00", "2026-05-02T01:00", "2026-05-01T02:00", "2026-04-01T02:00"):
        found = look(plan(), "2026-05-02T02:00", now)
        assert (found.time, found.dealt_with, found.next) == (None, None, at("2026-05-03T02:00")), now


@pytest.mark.parametrize(
    ("jump", "runs", "missed"),
    [("2026-05-02T02:30", "2026-05-02T02:00", 0), ("2026-05-03T02:30", "2026-05-03T02:00", 1)],
)
def test_a_clock_that_jumps_forward_runs_the_newest_time_once(jump: str, runs: str, missed: int) -> None:
    """By an hour, and by a day.  When it is set right again, what has run does not run again."""
    found = look(plan(), "2026-05-01T02:00", jump)
    assert (found.time, found.missed) == (at(runs), missed)
    assert look(plan(), runs, "2026-05-02T02:00").time is None


def test_an_operator_that_was_away_for_a_week_runs_once_and_counts_the_others() -> None:
    found = look(plan(), "2026-05-01T02:00", "2026-05-08T03:00")
    assert (found.time, found.missed) == (at("2026-05-08T02:00"), 6)


def test_beyond_the_deadline_the_newest_is_missed_too() -> None:
    found = look(plan(), "2026-05-01T02:00", "2026-05-08T14:00:01")
    assert (found.time, found.dealt_with, found.missed) == (None, at("2026-05-08T02:00"), 7)
    assert found.next == at("2026-05-09T02:00")


@pytest.mark.parametrize(
    ("expression", "deadline", "late", "runs"),
    [
        ("*/10 * * * *", None, 300, True),
        ("*/10 * * * *", None, 301, False),
        ("0 0 * * 0", None, 12 * 3600, True),
        ("0 0 * * 0", None, 12 * 3600 + 1, False),
        ("0 0 * * 0", 24 * 3600, 24 * 3600, True),
        ("*/10 * * * *", 20, 21, False),
    ],
)
def test_the_deadline(expression: str, deadline: int | None, late: int, runs: bool) -> None:
    limit = None if deadline is None else timedelta(seconds=deadline)
    moment = at("2026-05-03T00:00")  # a Sunday
    now = moment + timedelta(seconds=late)
    found = due(plan(expression, deadline=limit), floor=moment - timedelta(seconds=1), now=now)
    assert (found.time is not None) == runs


def test_a_minutely_schedule_after_a_year_is_short() -> None:
    found = look(plan("* * * * *"), "2025-05-01T02:00", "2026-05-01T02:00:10")
    assert found.time == at("2026-05-01T02:00") and found.missed == MOST_COUNTED


def test_two_years_of_a_nightly_schedule_run_once_a_night() -> None:
    nightly = plan("30 2 * * *", where="Europe/Berlin")
    now, floor, nights = at("2026-01-01T12:00"), at("2026-01-01T12:00"), []
    while now < at("2028-01-01T12:00"):
        found = due(nightly, floor=floor, now=now)
        if found.time is not None:
            floor = found.time
            nights.append(found.time.astimezone(zone("Europe/Berlin")))
        assert found.next is not None and not found.missed
        now = found.next
    days = [night.date() for night in nights]
    assert len(days) == 730 and days == [date(2026, 1, 2) + timedelta(days=number) for number in range(730)]
    odd = [night.isoformat() for night in nights if (night.hour, night.minute) != (2, 30)]
    assert odd == ["2026-03-29T03:00:00+02:00", "2027-03-28T03:00:00+02:00"]


JUMPS = st.lists(st.sampled_from([-24.0, -1.0, -0.02, 0.02, 0.5, 1.0, 5.0, 24.0, 168.0]), max_size=40)


@given(hours=JUMPS, expression=st.sampled_from(["*/20 * * * *", "30 2 * * *", "0 * * * *"]))
def test_whatever_the_clock_does_times_run_in_order_and_once(hours: list[float], expression: str) -> None:
    """Each look may be after a restart, a pause or a clock that was set: only the floor is remembered."""
    the_plan = plan(expression, where="Europe/Berlin")
    now = floor = at("2026-10-24T12:00")
    ran: list[datetime] = []
    for jump in hours:
        now += timedelta(hours=jump)
        found = due(the_plan, floor=floor, now=now)
        if found.dealt_with is not None:
            assert floor < found.dealt_with <= now
            floor = found.dealt_with
        if found.time is not None:
            assert found.time <= now
            ran.append(found.time)
        assert found.next is None or found.next > max(now, floor)
        again = due(the_plan, floor=floor, now=now)
        assert (again.time, again.dealt_with, again.missed) == (None, None, 0), "looked at twice"
    assert ran == sorted(set(ran))


def test_a_search_for_rare_times_has_an_end() -> None:
    rare = Plan(("0 0 29 2 *", "0 0 31 12 *"), zone("Europe/Berlin"))
    assert len(list(rare.after(datetime(2028, 3, 1, tzinfo=UTC)))) == 25
    assert rare.next(datetime(2028, 3, 1, tzinfo=UTC)) is not None
