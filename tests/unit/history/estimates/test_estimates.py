"""When a job starts and ends, whether it would start now, and how good that was."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from fournos.engine.kube.resource import Key
from fournos.history.estimates.accuracy import Prediction, accuracy
from fournos.history.estimates.durations import (
    Durations,
    Past,
    WorkProfile,
    closest,
    durations,
    past_of,
    quantile,
)
from fournos.history.estimates.queue import QueueModel, RunningJob, WaitingJob, capacity_of
from fournos.history.estimates.simulate import estimate, estimates, remaining, would_start
from fournos.history.records import Identity, Run
from fournos.insight.quota import Quota, QuotaLine

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = Durations((3600.0,) * 5, "5 runs")
SPREAD = Durations(tuple(float(600 * n) for n in range(1, 11)), "10 runs")


def key(name: str) -> Key:
    return Key("fournos", name)


def waiting(name: str, gpus: float = 4, known: Durations | None = HOUR, flavors: str = "a") -> WaitingJob:
    return WaitingJob(key(name), {flavor: {"gpu": gpus} for flavor in flavors}, known)


def running(name: str, gpus: float = 8, elapsed: float = 0, known: Durations | None = HOUR) -> RunningJob:
    return RunningJob(key(name), "a", {"gpu": gpus}, elapsed, known)


def queue(
    *jobs: WaitingJob, busy: tuple[RunningJob, ...] = (), strict: bool = False, b: float = 0
) -> QueueModel:
    return QueueModel({"a": {"gpu": 8.0}, "b": {"gpu": b}}, jobs, busy, strict)


def minutes(found: datetime) -> float:
    return (found - NOW).total_seconds() / 60


def start(found: QueueModel, name: str) -> float:
    result = estimate(found, key(name), NOW).start
    assert result
    assert result.median <= result.p90
    return minutes(result.median)


def test_a_job_starts_when_its_quota_is_free() -> None:
    assert start(queue(waiting("x")), "x") == 0
    assert start(queue(waiting("x"), busy=(running("r", elapsed=600),)), "x") == 50
    found = estimate(queue(waiting("x"), busy=(running("r", elapsed=600),)), key("x"), NOW)
    assert found.end
    assert minutes(found.end.median) == 110
    assert (found.basis, found.reason) == ("5 runs", "")


def test_those_before_it_come_first() -> None:
    jobs = [waiting("1"), waiting("2"), waiting("3"), waiting("4"), waiting("5")]
    found = queue(*jobs, busy=(running("r"),))
    assert [start(found, str(n)) for n in range(1, 6)] == [60, 60, 120, 120, 180]


def test_one_that_does_not_fit_lets_others_pass_unless_the_order_is_strict() -> None:
    jobs = (waiting("big", 8), waiting("small", 2))
    busy = (running("r", gpus=4),)
    assert start(queue(*jobs, busy=busy), "small") == 0
    assert start(queue(*jobs, busy=busy, strict=True), "small") == 120


def test_the_first_flavor_with_room() -> None:
    busy = (running("r"),)
    assert start(queue(waiting("x", flavors="ab"), busy=busy, b=4), "x") == 0
    assert start(queue(waiting("x", flavors="ab"), busy=busy, b=2), "x") == 60


def test_median_and_p90_come_from_the_spread() -> None:
    found = estimate(queue(waiting("x"), busy=(running("r", known=SPREAD),)), key("x"), NOW)
    assert found.start
    assert 40 <= minutes(found.start.median) <= 70
    assert 80 <= minutes(found.start.p90) <= 100


def test_what_has_run_for_long_is_expected_to_end_later_than_all() -> None:
    assert start(queue(waiting("x"), busy=(running("r", elapsed=5 * 3600),)), "x") == 75
    busy = (running("r", elapsed=5400, known=SPREAD),)
    assert start(queue(waiting("x"), busy=busy), "x") == 10, "only the longest run is longer"


def test_the_same_queue_has_the_same_estimate() -> None:
    one = queue(waiting("x", known=SPREAD), busy=(running("r", known=SPREAD),))
    assert estimate(one, key("x"), NOW) == estimate(one, key("x"), NOW)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (queue(waiting("x"), busy=(running("r", known=None),)), "nothing is known of the duration of 1 job"),
        (queue(waiting("o", 8, None), waiting("x"), busy=(running("r"),)), "duration of 1 job before it"),
        (queue(waiting("x", 9)), "it asks for more than there is"),
        (queue(waiting("x", flavors="")), "no quota exists for what it asks for"),
        (queue(replace(waiting("x", flavors=""), closed=True)), "its cluster takes no jobs"),
        (replace(queue(waiting("x")), stopped=True), "its queue is stopped"),
    ],
)
def test_without_an_estimate_there_is_a_reason(found: QueueModel, reason: str) -> None:
    result = estimate(found, key("x"), NOW)
    assert (result.start, result.end) == (None, None)
    assert reason in result.reason


def test_unknown_jobs_elsewhere_do_not_matter() -> None:
    other = WaitingJob(key("o"), {"b": {"gpu": 1}}, None)
    assert start(queue(other, waiting("x"), busy=(running("r"),)), "x") == 60


def test_the_start_is_known_although_the_end_is_not() -> None:
    found = estimate(queue(waiting("x", known=None), busy=(running("r"),)), key("x"), NOW)
    assert found.start
    assert found.end is None
    assert found.reason == "not enough history: fewer than 5 comparable runs"


def test_a_stopped_queue_starts_nothing_now() -> None:
    found = would_start(replace(queue(), stopped=True), waiting("new"), NOW)
    assert (found.now, found.estimate.reason) == (False, "its queue is stopped")


def test_several_jobs_by_the_same_plays() -> None:
    found = queue(*(waiting(str(n)) for n in range(1, 6)), busy=(running("r"),))
    several = estimates(found, [key("5"), key("2")], NOW)
    assert {one.name: minutes(each.start.median) for one, each in several.items() if each.start} == {
        "5": 180,
        "2": 60,
    }


def test_the_end_of_a_running_job() -> None:
    found = remaining(SPREAD, 5400, NOW)
    assert found.end and minutes(found.end.median) == 10, "only the longest run is longer"
    assert found.start is None and found.basis == "10 runs"
    overdue = remaining(SPREAD, 8000, NOW)
    assert overdue.end and overdue.end.median == NOW + timedelta(seconds=2000)
    assert remaining(None, 1, NOW).reason == "not enough history: fewer than 5 comparable runs"


def test_a_job_that_is_not_in_the_queue() -> None:
    with pytest.raises(KeyError):
        estimate(queue(), key("x"), NOW)


def test_would_it_start_now() -> None:
    busy = (running("r", gpus=4),)
    yes = would_start(queue(busy=busy), waiting("new"), NOW)
    assert (yes.now, yes.flavor) == (True, "a")
    behind = would_start(queue(waiting("1"), busy=busy), waiting("new"), NOW)
    assert (behind.now, behind.flavor) == (False, "")
    assert behind.estimate.start
    assert minutes(behind.estimate.start.median) == 60
    first = would_start(queue(waiting("1"), busy=busy), waiting("new"), NOW, place=0)
    assert first.now, "a higher priority comes first"
    never = would_start(queue(), waiting("new", 100), NOW)
    assert (never.now, never.estimate.reason) == (False, "it asks for more than there is")


def test_quota_of_insight() -> None:
    lines = tuple(
        QuotaLine("a", name, Decimal(asks), Decimal(0), Decimal(nominal), Decimal(nominal))
        for name, asks, nominal in (("gpu", 2, 8), ("slot", 1, 100))
    )
    quota = Quota(lines, (), ())
    job = WaitingJob.of(key("x"), quota, HOUR)
    assert job.flavors == {"a": {"gpu": 2.0, "slot": 1.0}}
    assert WaitingJob.of(key("x"), Quota(lines, (), ("memory",)), HOUR).flavors == {}
    drained = Quota((), (), (), {"a": "it is drained"})
    assert WaitingJob.of(key("x"), drained, HOUR) == WaitingJob(key("x"), {}, HOUR, closed=True)


def test_the_nominal_quota_of_a_cluster_queue() -> None:
    resources = [{"name": "gpu", "nominalQuota": "8"}, {"name": "slot", "nominalQuota": 100}]
    groups = [{"coveredResources": ["gpu", "slot"], "flavors": [{"name": "a", "resources": resources}]}]
    assert capacity_of({"spec": {"resourceGroups": groups}}) == {"a": {"gpu": 8.0, "slot": 100.0}}
    assert capacity_of({"spec": {}}) == {}


def test_a_long_queue_is_estimated_in_time() -> None:
    jobs = tuple(waiting(str(number), 1 + number % 4, SPREAD) for number in range(200))
    busy = tuple(running(f"r{number}", 1, known=SPREAD) for number in range(8))
    begun = time.process_time()
    assert estimate(queue(*jobs, busy=busy), key("199"), NOW).start
    assert time.process_time() - begun < 10


def work(**more: object) -> WorkProfile:
    fields = {"fingerprint": "f", "pipeline": "p", "project": "x", "gpu_type": "h200", "gpu_count": 2}
    return WorkProfile(**{**fields, **more})  # type: ignore[arg-type]


def test_the_most_comparable_runs_of_which_there_are_enough() -> None:
    same = [Past(work(), 10.0 + n) for n in range(5)]
    near = [Past(work(fingerprint="g"), 100.0)] * 5
    far = [Past(work(fingerprint="h", gpu_count=8), 900.0)] * 5
    found = durations(work(), [*near, *same, *far])
    assert found == Durations((10, 11, 12, 13, 14), "5 runs of the same fingerprint")
    found = durations(work(), [*same[:4], *near, *far])
    assert found
    assert found.basis == "9 runs of the same pipeline, project and GPUs"
    found = durations(work(project="", fingerprint=""), [*near, *far])
    assert found
    assert found.basis == "10 runs of the same pipeline"
    assert durations(work(), same[:4]) is None
    assert durations(WorkProfile(), [Past(WorkProfile(), 1.0)] * 20) is None, (
        "nothing known is nothing in common"
    )
    newest = durations(work(), [*[Past(work(), 1.0)] * 50, *[Past(work(), 99.0)] * 50])
    assert newest
    assert set(newest.seconds) == {1.0}


def test_the_closest_of_what_a_job_may_become() -> None:
    past = [*[Past(work(fingerprint="b"), 60.0)] * 5, *[Past(work(fingerprint="c"), 99.0)] * 5]
    found = closest([work(fingerprint="a"), work(fingerprint="b")], past)
    assert found and found.basis == "5 runs of the same fingerprint" and set(found.seconds) == {60.0}
    found = closest([work(fingerprint="a")], past)
    assert found and found.basis == "10 runs of the same pipeline, project and GPUs"
    assert closest([], past) is None


def test_the_past_of_a_run() -> None:
    def ran(**times: datetime | None) -> Past | None:
        run = Run(Identity("c", "n", "u"), "FournosJob", "x", "ns", NOW, NOW, 1, fingerprint="f", **times)  # type: ignore[arg-type]
        return past_of(run)

    later = NOW + timedelta(minutes=5)
    assert ran(started_at=NOW, ended_at=later) == Past(WorkProfile("f"), 300.0)
    assert ran(admitted_at=NOW, ended_at=later) == Past(WorkProfile("f"), 300.0)
    assert ran(ended_at=later) is None
    assert ran(started_at=NOW) is None
    assert ran(started_at=later, ended_at=NOW) is None, "clocks differ"


def test_quantiles() -> None:
    assert quantile([1.0], 0.9) == 1
    assert quantile([0.0, 10.0], 0.5) == 5
    assert quantile([float(n) for n in range(11)], 0.9) == 9


def test_accuracy() -> None:
    def predicted(index: int, happened: float | None) -> Prediction:
        at = None if happened is None else NOW + timedelta(minutes=happened)
        return Prediction("start", NOW, NOW + timedelta(minutes=60), NOW + timedelta(minutes=90), at)

    times = [30, 50, 55, 58, 60, 61, 70, 80, 88, 200]
    made = [predicted(n, minute) for n, minute in enumerate(times)]
    found = accuracy("start", made)
    assert found
    assert (found.scored, found.before_median, found.before_p90) == (10, 0.5, 0.9)
    assert found.median_error == 600
    assert str(found) == (
        "start: half of 10 estimates were off by less than 600 s (17%); "
        "90% of the jobs were there by the later time"
    )
    assert accuracy("start", made[:9]) is None
    assert accuracy("end", made) is None
    assert accuracy("start", [*made[:9], predicted(9, None), predicted(9, -5)]) is None


def test_estimates_are_calibrated() -> None:
    """Over many random queues, about half of the jobs start before the median and nine of ten before p90."""
    source = random.Random(5)
    made = []
    for _ in range(120):
        lengths = sorted(source.lognormvariate(7, 0.5) for _ in range(30))
        known = Durations(tuple(lengths), "30 runs")
        elapsed = source.random() * 500
        busy = tuple(running(f"r{n}", 4, elapsed, known) for n in range(2))
        jobs = tuple(waiting(str(n), 4, known) for n in range(3))
        found = estimate(queue(*jobs, busy=busy), key("2"), NOW).start
        assert found
        ends = sorted(source.choice([x for x in lengths if x > elapsed]) - elapsed for _ in range(2))
        for _ in range(2):  # each of the two jobs before it starts when one ends
            ends = sorted([ends[0] + source.lognormvariate(7, 0.5), ends[1]])
        made.append(Prediction("start", NOW, found.median, found.p90, NOW + timedelta(seconds=ends[0])))
    score = accuracy("start", made)
    assert score
    assert 0.38 < score.before_median < 0.62
    assert 0.8 < score.before_p90 < 0.97
