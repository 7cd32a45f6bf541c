"""What is announced: each verdict once, whatever is calculated anew."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fournos.history.alerts.due import TRIES, UNDER_WAY, Announced, Delivery, News, NewsVerdict, due
from fournos.history.records import Identity
from fournos.history.regressions.acknowledge import Acknowledgement
from fournos.history.regressions.judge import Report, judge
from fournos.history.regressions.review import SeriesReview
from fournos.history.regressions.series import Point, Series
from tests.unit.cli.test_stored import run

NOW = datetime(2026, 1, 20, tzinfo=UTC)
RUN = replace(run("newest"), identity=Identity("c", "bench", "newest"), namespace_uid="uid", fingerprint="f")
QUIET = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 100.8, 99.2, 100.1, 99.9, 100.4, 99.6]


def series(*after: float, name: str = "tput", better: bool | None = True) -> Series:
    """The newest value is of an hour ago; there is one each hour."""
    values = [*QUIET, *after]
    points = tuple(
        Point(f"c/n/{index}", NOW - timedelta(hours=len(values) - index), value)
        for index, value in enumerate(values)
    )
    return Series(name, name, points, "s", better)


def judged(*found: Series, known: tuple[Acknowledgement, ...] = ()) -> SeriesReview:
    return SeriesReview(RUN, found, judge(found), known)


def announced(
    *sent: News, delivery: Delivery = Delivery.SENT, tries: int = 1, made_at: datetime = NOW
) -> list[Announced]:
    return [
        Announced(mark.series, mark.run, mark.at, mark.rises, mark.state, delivery, tries, made_at)
        for news in sent
        for mark in news.marks
    ]


DROP = (60.0, 60.5, 59.5, 60.2, 60.1)


@pytest.mark.parametrize(
    ("better", "verdict"),
    [(True, NewsVerdict.CONFIRMED), (False, NewsVerdict.IMPROVED), (None, NewsVerdict.CHANGED)],
)
def test_a_confirmed_change_is_due_with_the_run_before(better: bool | None, verdict: NewsVerdict) -> None:
    (news,) = due(judged(series(*DROP, better=better)), [], NOW)
    assert (news.verdict, news.run, news.before) == (verdict, "c/n/12", "c/n/11")
    assert [mark.state for mark in news.marks] == [verdict]


def test_a_suspicion_is_not_due() -> None:
    assert judge([series(60.0)]).findings
    assert due(judged(series(60.0)), [], NOW) == []


def test_kpis_of_one_cause_are_one_message() -> None:
    (news,) = due(judged(series(*DROP), series(*DROP, name="other")), [], NOW)
    assert {one.kpi_id for one in news.changes} == {"tput", "other"}


def test_what_was_sent_is_not_sent_again_when_later_runs_move_it() -> None:
    (sent,) = due(judged(series(*DROP)), [], NOW)
    assert due(judged(series(*DROP)), announced(sent), NOW) == []
    (later,) = judge([series(*DROP, 60.3, 60.0)]).findings
    place = [point.run for point in series(*DROP, 60.3, 60.0).points].index(later.run) + 1
    moved = replace(later, run=f"c/n/{place}", at=later.at + timedelta(hours=1))
    whole = judged(series(*DROP, 60.3, 60.0))
    known = [replace(one, at=later.at) for one in announced(sent)]
    assert due(replace(whole, report=Report((moved,))), known, NOW) == []


def test_a_further_change_and_the_way_back_are_announced() -> None:
    (sent,) = due(judged(series(*DROP)), [], NOW)
    further = series(*DROP, 30.0, 30.2, 29.8, 30.1, 30.0)
    known = [replace(one, at=further.points[12].at) for one in announced(sent)]
    (news,) = due(judged(further), known, NOW)
    assert (news.verdict, news.run) == (NewsVerdict.CONFIRMED, "c/n/17")
    back = series(*DROP, 100.0, 100.2, 99.8, 100.1, 100.0)
    known = [replace(one, at=back.points[12].at) for one in announced(sent)]
    (news,) = due(judged(back), known, NOW)
    assert (news.verdict, news.run) == (NewsVerdict.IMPROVED, "c/n/17")


def test_what_is_acknowledged_or_old_is_not_due() -> None:
    bad = series(*DROP)
    (finding,) = judge([bad]).findings
    assert due(judged(bad, known=(Acknowledgement.of(finding, "meant", "me", NOW),)), [], NOW) == []
    old = due(judged(bad), [], NOW + timedelta(days=15))
    assert [news.verdict for news in old] == [NewsVerdict.SILENT]


def test_a_silence_is_announced_once_and_again_after_new_runs() -> None:
    later = NOW + timedelta(days=3)
    whole = judged(series(), series(name="other"))
    (news,) = due(whole, [], later)
    assert (news.verdict, news.run, len(news.silent)) == (NewsVerdict.SILENT, "c/n/11", 2)
    assert due(whole, announced(news), later) == []
    one = whole.series[0]
    expired = [replace(each, points=each.points[:-1]) for each in whole.series]
    assert due(replace(whole, series=expired), announced(news), later) == [], "its last run has expired"
    points = (*one.points, Point("c/n/12", NOW, 100.0))
    (again,) = due(judged(replace(one, points=points)), announced(news), later)
    assert again.run == "c/n/12"


@pytest.mark.parametrize(
    ("delivery", "tries", "again"),
    [
        (Delivery.SENT, 1, False),
        (Delivery.SENDING, 1, True),
        (Delivery.RESENDING, 2, False),
        (Delivery.FAILED, TRIES - 1, True),
        (Delivery.FAILED, TRIES, False),
    ],
)
def test_what_was_cut_off_is_sent_once_more_and_what_failed_for_some_time(
    delivery: Delivery, tries: int, again: bool
) -> None:
    whole = judged(series(*DROP))
    (news,) = due(whole, [], NOW)
    known = announced(news, delivery=delivery, tries=tries, made_at=NOW - UNDER_WAY)
    found = due(whole, known, NOW)
    assert bool(found) is again
    assert [one.id for one in found] in ([], [news.id])


def test_what_another_recorder_may_be_sending_is_left_to_it() -> None:
    whole = judged(series(*DROP))
    (news,) = due(whole, [], NOW)
    known = announced(news, delivery=Delivery.SENDING, made_at=NOW - UNDER_WAY + timedelta(seconds=1))
    assert due(whole, known, NOW) == []
