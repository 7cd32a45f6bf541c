"""Which time is due: the one function for start, restart, relist, resume and edit."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fournos.api.fournosschedule import MissedReason
from fournos.systems.schedules.dialect import cron, zone
from fournos.systems.schedules.due import MOST_COUNTED, Due, Plan, due
from fournos.systems.schedules.exclusions import ExcludedTimes

LATE, TOO_SOON = MissedReason.LATE, MissedReason.TOO_SOON


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def plan(*expressions: str, where: str = "Etc/UTC", **fields: Any) -> Plan:
    return Plan(tuple(map(cron, expressions or ("0 2 * * *",))), zone(where), **fields)


def look(the_plan: Plan, floor: str, now: str, last: str | None = None) -> Due:
    return due(the_plan, floor=at(floor), last_start=at(last) if last else None, now=at(now))


def test_a_time_that_has_come_is_due_and_the_next_is_known() -> None:
    found = look(plan(), "2026-05-01T02:00", "2026-05-02T02:00:01")
    assert (found.time, found.missed, found.next) == (at("2026-05-02T02:00"), {}, at("2026-05-03T02:00"))
    assert found.deadline == at("2026-05-02T14:00"), "half the interval"


def test_before_it_nothing_is_due() -> None:
    assert look(plan(), "2026-05-01T02:00", "2026-05-02T01:59:59") == Due(next=at("2026-05-02T02:00"))


def test_a_time_that_was_dealt_with_is_never_due_again_even_if_the_clock_is_set_back() -> None:
    for now in ("2026-05-02T02:00", "2026-05-02T01:00", "2026-05-01T02:00", "2026-04-01T02:00"):
        found = look(plan(), "2026-05-02T02:00", now)
        assert (found.time, found.dealt_with, found.next) == (None, None, at("2026-05-03T02:00")), now


@pytest.mark.parametrize(
    ("jump", "runs", "missed"),
    [("2026-05-02T02:30", "2026-05-02T02:00", {}), ("2026-05-03T02:30", "2026-05-03T02:00", {LATE: 1})],
)
def test_a_clock_that_jumps_forward_runs_the_newest_time_once(jump: str, runs: str, missed: Any) -> None:
    """By an hour, and by a day.  When it is set right again, what has run does not run again."""
    found = look(plan(), "2026-05-01T02:00", jump)
    assert (found.time, found.missed) == (at(runs), missed)
    assert look(plan(), runs, "2026-05-02T02:00").time is None


def test_an_operator_that_was_away_for_a_week_runs_once_and_counts_the_others() -> None:
    found = look(plan(), "2026-05-01T02:00", "2026-05-08T03:00")
    assert (found.time, found.missed) == (at("2026-05-08T02:00"), {LATE: 6})


def test_beyond_the_deadline_the_newest_is_missed_too() -> None:
    found = look(plan(), "2026-05-01T02:00", "2026-05-08T14:00:01")
    assert (found.time, found.dealt_with, found.missed) == (None, at("2026-05-08T02:00"), {LATE: 7})
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
    found = due(
        plan(expression, deadline=limit), floor=moment - timedelta(seconds=1), last_start=None, now=now
    )
    assert (found.time is not None) == runs


def test_a_minutely_schedule_after_a_year_is_short() -> None:
    found = look(plan("* * * * *"), "2025-05-01T02:00", "2026-05-01T02:00:10")
    assert found.time == at("2026-05-01T02:00") and found.missed == {LATE: MOST_COUNTED}


def test_jitter_moves_begin_deadline_and_next_but_not_the_time() -> None:
    moved = plan(jitter=timedelta(minutes=7))
    assert look(moved, "2026-05-01T02:00", "2026-05-02T02:06:59") == Due(next=at("2026-05-02T02:07"))
    found = look(moved, "2026-05-01T02:00", "2026-05-02T02:07")
    assert (found.time, found.next) == (at("2026-05-02T02:00"), at("2026-05-03T02:07"))
    assert found.deadline == at("2026-05-02T14:07")


def test_an_excluded_day_creates_nothing_counts_nothing_and_is_not_made_up_for() -> None:
    free = plan(excluded=ExcludedTimes(frozenset({date(2026, 5, 2)})))
    assert look(free, "2026-05-01T02:00", "2026-05-02T02:00") == Due(next=at("2026-05-03T02:00"))
    after = look(free, "2026-05-01T02:00", "2026-05-03T00:00:01")
    assert (after.time, after.missed) == (None, {})
    found = look(free, "2026-05-01T02:00", "2026-05-03T02:00")
    assert (found.time, found.missed) == (at("2026-05-03T02:00"), {})


def test_a_time_before_an_exclusion_is_not_run_after_it() -> None:
    free = plan("0 22 * * *", excluded=ExcludedTimes(windows=((time(22, 30), time(6)),)))
    assert look(free, "2026-05-01T22:00", "2026-05-02T22:10").time == at("2026-05-02T22:00")
    for now in ("2026-05-02T23:00", "2026-05-03T01:00", "2026-05-03T06:01"):
        assert look(free, "2026-05-01T22:00", now).time is None, now


def test_a_window_is_in_local_time_across_a_clock_change() -> None:
    """08:00 to 18:00 in Berlin: 07:00 to 17:00 UTC in winter, 06:00 to 16:00 in summer."""
    free = plan("30 * * * *", where="Europe/Berlin", excluded=ExcludedTimes(windows=((time(8), time(18)),)))
    hours = [
        (day, hour)
        for day in ("2026-03-28", "2026-03-29")
        for hour in range(24)
        if look(free, f"{day}T{hour:02}:29", f"{day}T{hour:02}:30").time is not None
    ]
    assert hours == [("2026-03-28", hour) for hour in (*range(7), *range(17, 24))] + [
        ("2026-03-29", hour) for hour in (*range(6), *range(16, 24))
    ]


def test_a_schedule_that_is_always_excluded_has_no_next_time() -> None:
    never = plan(excluded=ExcludedTimes(windows=((time(0), time(12)),)))
    assert look(never, "2026-05-01T02:00", "2026-05-02T02:00") == Due()


def test_the_minimum_interval_drops_the_doubled_hour() -> None:
    spaced = plan("0 * * * *", where="Europe/Berlin", minimum_interval=timedelta(minutes=90))
    found = look(spaced, "2026-10-25T00:00", "2026-10-25T01:00", last="2026-10-25T00:00")
    assert (found.time, found.missed, found.next) == (None, {TOO_SOON: 1}, at("2026-10-25T02:00"))


def test_two_years_of_a_nightly_schedule_run_once_a_night() -> None:
    nightly = plan("30 2 * * *", where="Europe/Berlin")
    now, floor, nights = at("2026-01-01T12:00"), at("2026-01-01T12:00"), []
    while now < at("2028-01-01T12:00"):
        found = due(nightly, floor=floor, last_start=None, now=now)
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
        found = due(the_plan, floor=floor, last_start=None, now=now)
        if found.dealt_with is not None:
            assert floor < found.dealt_with <= now
            floor = found.dealt_with
        if found.time is not None:
            assert found.deadline is not None and found.time <= now <= found.deadline
            ran.append(found.time)
        assert found.next is None or found.next > max(now, floor)
        again = due(the_plan, floor=floor, last_start=None, now=now)
        assert (again.time, again.dealt_with, again.missed) == (None, None, {}), "looked at twice"
    assert ran == sorted(set(ran))
