"""The jobs of a fire: names, provenance, placeholders, the limit of their wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fournos.api.fournosschedule import FournosScheduleSpec, FournosScheduleStatus
from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.app.parts import TABLE
from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import Obj
from fournos.engine.kube.store import Store
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.metrics import Metrics
from fournos.systems.jobs.rules import check_manifest as check_job
from fournos.systems.schedules import names
from fournos.systems.schedules.build import Fire, children, creation, name_taken, problem
from fournos.systems.schedules.metrics import count_written, report, success_expected
from fournos.systems.schedules.rules import RULES, check_manifest
from fournos.systems.schedules.times import zone
from tests.unit.systems.schedules.actors import CREATIONS, ENGINE, schedule

TIME = datetime(2026, 11, 28, 23, 30, tzinfo=UTC)


def made(*, period: timedelta | None = timedelta(hours=24), name: str = "nightly", **spec: Any) -> list[Obj]:
    given = schedule(name=name, **spec)
    given["metadata"] |= {"uid": "uid-1", "generation": 7}
    fire = Fire(TIME, zone("Europe/Berlin"), period)
    return children(given, FournosScheduleSpec.model_validate(given["spec"]), fire)


def template(spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"spec": {"executionEngine": ENGINE, "exclusive": False, **(spec or {})}, "metadata": metadata}


def test_placeholders_are_filled_in_all_texts_of_params() -> None:
    params = {"run": "of {{date}} ({{time}})", "list": ["{{date}}", "a"], "number": 3}
    (job,) = made(jobTemplate=template({"params": params}))
    assert job["spec"]["params"] == {
        "run": "of 2026-11-29 (2026-11-28T23:30:00Z)",  # the day in Berlin, the time in UTC
        "list": ["2026-11-29", "a"],
        "number": 3,
    }


def test_placeholders_in_a_matrix_are_filled_too() -> None:
    found = made(jobTemplate=template(), matrix={"params.run": ["{{date}}-a", "{{date}}-b"]})
    assert [job["spec"]["params"]["run"] for job in found] == ["2026-11-29-a", "2026-11-29-b"]


def test_a_wait_in_the_queue_ends_after_one_period_unless_the_template_has_a_limit() -> None:
    (job,) = made(jobTemplate=template({"timeouts": {"pipeline": "1h"}}))
    assert job["spec"]["timeouts"] == {"pipeline": "1h", "pending": "24h0m0s"}
    (job,) = made(jobTemplate=template({"timeouts": {"pending": "2h"}}))
    assert job["spec"]["timeouts"] == {"pending": "2h"}
    assert "timeouts" not in made(period=None)[0]["spec"]


def test_what_is_no_map_is_left_for_the_api_server_to_refuse() -> None:
    (job,) = made(jobTemplate=template(), matrix={"params": ["x"], "timeouts": ["1h"]})
    assert (job["spec"]["params"], job["spec"]["timeouts"]) == ("x", "1h")


def test_provenance_cannot_be_forged_and_reserved_labels_are_not_borrowed() -> None:
    labels = {names.SCHEDULE_UID_LABEL: "another", names.CONFIRMS_LABEL: "a job", "team": "perf"}
    (job,) = made(jobTemplate=template(labels=labels, annotations={"note": "x"}))
    assert job["metadata"]["labels"] == {
        "team": "perf",
        names.SCHEDULE_LABEL: "nightly",
        names.SCHEDULE_UID_LABEL: "uid-1",
        names.TIME_LABEL: "202611282330",
    }
    assert job["metadata"]["annotations"] == {
        "note": "x",
        names.GENERATION_ANNOTATION: "7",
        names.TIME_ANNOTATION: "2026-11-28T23:30:00Z",
    }


def test_a_job_is_one_that_the_rules_of_jobs_accept() -> None:
    axes = {"params.model": ["a", "b"], "hardware.gpuCount": [1, 2], "hardware.gpuType": ["a100"]}
    for job in made(matrix=axes, name="n" * 63):
        assert check_job(job) == []


@pytest.mark.parametrize("jobs", [1, 2, 64])
def test_names_are_cut_with_a_digest_of_the_uid(jobs: int) -> None:
    short = names.job_names("nightly", "uid-1", TIME, jobs)
    assert short[0] == ("nightly-202611282330" if jobs == 1 else "nightly-202611282330-0")
    long = names.job_names("n" * 63, "uid-1", TIME, jobs)
    other = names.job_names("n" * 62 + "x", "uid-2", TIME, jobs)
    assert max(map(len, (*long, *other))) <= names.MAX_JOB_NAME
    assert len({*long, *other}) == 2 * jobs


def test_two_schedules_that_race_for_a_name() -> None:
    """`a` with several jobs and `a-202611282330` with one may want one name: who comes second is told."""
    (mine,) = made()
    step = creation(mine)
    assert name_taken(step, mine) is None
    dying = {**mine, "metadata": {**mine["metadata"], "deletionTimestamp": "2026-11-28T23:31:00Z"}}
    assert name_taken(step, dying) is None, "somebody deletes it: it is not created again"
    for labels in ({names.SCHEDULE_UID_LABEL: "uid-2"}, {}, None):
        theirs = {**mine, "metadata": {**mine["metadata"], "labels": labels}}
        taken = name_taken(step, theirs)
        assert taken is not None and not taken.waits and "is not of this schedule" in taken.reason


# --- rules ---------------------------------------------------------------------------------------------
# The rules of a FournosSchedule in Python; tests/integration/schedules feeds the same to an API server.


def test_every_rule_has_a_case() -> None:
    assert {rule for rule, _, _ in CREATIONS} == {rule.id for rule in RULES}


@pytest.mark.parametrize(("rule", "bad", "good"), CREATIONS)
def test_creation(rule: str, bad: Any, good: Any) -> None:
    assert [violation.rule for violation in check_manifest(bad)] == [rule]
    assert check_manifest(good) == []


@pytest.mark.parametrize("field", ["schedules", "timeZone", "jobTemplate"])
def test_required(field: str) -> None:
    made = schedule()
    del made["spec"][field]
    assert check_manifest(made)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"schedules": []}, "spec.schedules: write at least 1 item"),
        ({"matrix": {"params.a": []}}, "spec.matrix.params.a: write at least 1 item"),
        ({"schedules": ["@daily"] * 17}, "spec.schedules: write at most 16 items"),
    ],
)
def test_bounds_of_the_schema(spec: Any, text: str) -> None:
    assert [str(violation) for violation in check_manifest(schedule(**spec))] == [text]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"schedules": ["0 0 31 2 *"]}, "Bad day-of-month"),
        ({"timeZone": "Europe/Bonn"}, "no time zone of the IANA database"),
        ({"matrix": {"params.a": [1] * 9, "params.b": [1] * 8}}, "72 combinations: write 1 to 64"),
        ({"matrix": {"params..a": [1]}}, "no path of a field"),
    ],
)
def test_what_only_the_operator_knows(spec: Any, text: str) -> None:
    made = schedule(**spec)
    assert check_manifest(made) == []
    assert text in problem(FournosScheduleSpec.model_validate(made["spec"]))


def test_a_schedule_that_can_work_has_no_problem() -> None:
    matrix = {"params.a": list(range(8)), "params.b": list(range(8))}
    made = schedule(matrix=matrix)
    assert check_manifest(made) == []
    assert problem(FournosScheduleSpec.model_validate(made["spec"])) == ""


# --- metrics -------------------------------------------------------------------------------------------
# What the metrics of schedules say: of status writes, and of the cache.

T1, T2 = "2030-01-01T02:00:00Z", "2030-01-02T02:00:00Z"


def of(status: Any, **spec: Any) -> dict[str, Any]:
    made = schedule(**spec)
    made["metadata"]["uid"] = "uid-1"
    return {**made, "status": status}


def test_missed_times_are_counted_by_reason() -> None:
    metrics = Metrics(TABLE)
    count_written(metrics, of({}), of({"missed": {"count": 3, "reason": "Late", "time": T1}}))
    overlapped = {"missed": {"count": 4, "reason": "Overlap", "time": T2}}
    count_written(metrics, of({"missed": {"count": 3, "reason": "Late", "time": T1}}), of(overlapped))
    count_written(metrics, of(overlapped), of(overlapped))
    found = [metrics.value("fournos_schedule_missed_total", reason) for reason in ("Late", "Overlap")]
    assert found == [3, 1]


def test_the_gauge_is_of_the_cache() -> None:
    metrics, store = Metrics(TABLE), Store()
    store.replace([of({"effectiveSince": T1, "lastSuccessTime": T1})], "1")
    report(Caches({FOURNOS_SCHEDULE: store}), metrics)
    assert 'schedule="nightly"' in metrics.render().decode()
    assert metrics.value("fournos_schedule_missed_total", "Late") == 0
    store.replace([], "2")
    report(Caches({FOURNOS_SCHEDULE: store}), metrics)
    assert 'schedule="nightly"' not in metrics.render().decode(), "a deleted schedule leaves no series"


def test_the_end_of_three_periods_follows_the_schedule() -> None:
    metrics, store = Metrics(TABLE), Store()
    values = []
    for version, last in (("1", T1), ("2", T2)):
        seen = of({"effectiveSince": "2029-12-31T00:00:00Z", "lastSuccessTime": last})
        seen["metadata"]["resourceVersion"] = version
        broken = of({"effectiveSince": T1}, timeZone="Nowhere/Land")
        broken["metadata"] |= {"name": "broken", "uid": "uid-2"}
        distant = of({"effectiveSince": T1}, suspend={"until": "9999-12-31T23:59:59Z"})
        distant["metadata"] |= {"name": "distant", "uid": "uid-3"}
        store.replace([seen, broken, distant], version)
        report(Caches({FOURNOS_SCHEDULE: store}), metrics)
        name = "fournos_schedule_success_expected_timestamp_seconds"
        values.append(metrics.value(name, "fournos", "nightly"))
    assert values == [1893463200 + days * 86400 for days in (3, 4)]
    expected = [line for line in metrics.render().decode().splitlines() if "expected" in line]
    assert not any('schedule="broken"' in line or 'schedule="distant"' in line for line in expected)


# --- when three periods of a schedule without a success are over -----------------------------------------

MONDAY = "2030-01-07T02:00:00Z"
SINCE = {"effectiveSince": "2030-01-01T12:00:00Z"}
SUCCEEDED = {**SINCE, "lastSuccessTime": MONDAY}
WEEKDAYS = {"schedules": ["0 2 * * 1-5"]}
FOR_EVER = {"suspend": {"reason": "a holiday"}}


def expected(status: dict[str, Any], **spec: Any) -> str | None:
    end = success_expected(
        FournosScheduleSpec.model_validate(schedule(**spec)["spec"]),
        FournosScheduleStatus.model_validate(status),
    )
    return format_time(end) if end else None


@pytest.mark.parametrize(
    ("spec", "status", "end"),
    [
        ({}, SUCCEEDED, "2030-01-10T02:00:00Z"),
        ({}, {**SUCCEEDED, "failures": 2}, "2030-01-10T02:00:00Z"),
        (WEEKDAYS, {**SINCE, "lastSuccessTime": "2030-01-10T02:00:00Z"}, "2030-01-15T02:00:00Z"),
    ],
    ids=["daily", "failures", "weekend"],
)
def test_three_times_after_the_last_success(spec: Any, status: Any, end: str) -> None:
    assert expected(status, **spec) == end


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({}, {"effectiveSince": "2030-01-07T12:00:00Z"}),
        ({}, {**SUCCEEDED, "effectiveSince": "2030-01-07T12:00:00Z"}),
        ({"suspend": {"until": "2030-01-07T12:00:00Z"}}, SUCCEEDED),
    ],
    ids=["new", "edited or resumed", "after a suspension with an end"],
)
def test_without_a_success_since_then_three_periods_after_the_first_time(spec: Any, status: Any) -> None:
    assert expected(status, **spec) == "2030-01-11T02:00:00Z"


@pytest.mark.parametrize(
    ("failures", "limit", "end"),
    [(0, 5, None), (4, 5, None), (5, 5, MONDAY), (9, 0, None)],
)
def test_of_a_suspended_schedule_nothing_unless_its_failures_suspended_it(
    failures: int, limit: int, end: str | None
) -> None:
    # The suspension is an edit.
    status = {"effectiveSince": "2030-01-07T02:30:00Z", "lastFire": {"time": MONDAY, "outcome": "Failed"}}
    assert expected({**status, "failures": failures}, stopAfterFailures=limit, **FOR_EVER) == end


def test_nothing_before_the_operator_has_seen_it() -> None:
    assert expected({}) is None
