"""The jobs of a fire: names, provenance, placeholders, the limit of their wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fournos.api.fournosschedule import FournosScheduleSpec
from fournos.engine.kube.resource import Obj
from fournos.systems.jobs.rules import check_manifest
from fournos.systems.schedules import names
from fournos.systems.schedules.build import Fire, children, creation, name_taken
from fournos.systems.schedules.times import zone
from tests.unit.systems.schedules.actors import ENGINE, schedule

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
        assert check_manifest(job) == []


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
