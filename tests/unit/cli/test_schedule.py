"""fournos schedule list, get, suspend, resume, trigger, delete."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from fournos.systems.schedules.names import SCHEDULE_UID_LABEL, TRIGGER_ANNOTATION
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import ago
from tests.unit.cli.schedules import child, schedule

OF_IT = {"metadata": {"uid": "uid-nightly", "resourceVersion": "1"}}
"""The precondition of each change: never a later schedule of this name."""


def test_schedules_at_a_glance() -> None:
    overlapping = {
        "type": "Overlapping",
        "status": "True",
        "reason": "Active",
        "message": "a fire was skipped",
    }
    api = Api(
        schedule("a"),
        schedule("b", suspend={"reason": "new GPUs", "until": "2030-02-01T00:00:00Z"}),
        schedule("c", suspend={"until": "2029-12-01T00:00:00Z"}),
        schedule("d", status={"conditions": [overlapping]}),
        schedule("e", status={"active": [{"time": ago(minutes=1)}], "lastFire": None}),
        schedule(
            "f", status={"lastFire": {"time": ago(hours=1), "outcome": "Failed", "message": "failed: f-1"}}
        ),
    )
    header, *rows = Program(api, env={"COLUMNS": "200"})("schedule", "list").stdout.splitlines()
    assert header.split() == ["NAME", "TIMES", "ZONE", "LAST", "OUTCOME", "NEXT", "STATE", "MESSAGE"]
    assert [" ".join(row.split()) for row in rows] == [
        "a 0 2 * * * Europe/Berlin 11h ago Succeeded in 13h Idle",
        "b 0 2 * * * Europe/Berlin 11h ago Succeeded in 13h Suspended until 2030-02-01T00:00:00Z: new GPUs",
        "c 0 2 * * * Europe/Berlin 11h ago Succeeded in 13h Idle",
        "d 0 2 * * * Europe/Berlin 11h ago Succeeded in 13h Overlapping a fire was skipped",
        "e 0 2 * * * Europe/Berlin 11h ago - in 13h Active",
        "f 0 2 * * * Europe/Berlin 11h ago Failed in 13h Idle failed: f-1",
    ]
    wide = Program(api, env={"COLUMNS": "200"})("schedule", "list", "-o", "wide").stdout
    assert wide.splitlines()[0].split()[-4:] == ["POLICY", "FAILURES", "MISSED", "MESSAGE"]
    names = Program(api)("schedule", "list", "-o", "name").stdout.splitlines()
    assert names[0] == "fournosschedule.fournos.dev/a"


def test_one_schedule_with_what_is_worth_knowing() -> None:
    missed = {"count": 2, "reason": "Late", "time": "2029-12-30T01:00:00Z"}
    accepted = {"type": "Accepted", "status": "True", "reason": "Valid"}
    api = Api(
        schedule(matrix={"params.model": ["a", "b"]}, status={"missed": missed, "conditions": [accepted]}),
        child("nightly-1", "Running"),
        child("nightly-0", "Succeeded"),
        child("other", "Running", of="other"),
    )
    text = Program(api)("schedule", "get", "nightly").stdout
    facts = {" ".join(line.split()) for line in text.splitlines()}
    assert {
        "nightly Idle",
        "Matrix params.model (2)",
        "Last fire 2030-01-01T01:00:00Z Succeeded",
        "Missed 2, the last one 2029-12-30T01:00:00Z: Late",
        "nightly-1 Running cluster-1 10m",
        "Wed 2030-01-02 02:00+01:00 in 13h",
        "Accepted True Valid -",
        f"fournos list -l {SCHEDULE_UID_LABEL}=uid-nightly all its jobs",
    } <= facts
    assert "nightly-0" not in text and "other" not in text
    assert text.count("02:00+01:00") == 10, "the next ten times"
    assert yaml.safe_load(Program(api)("schedule", "get", "nightly", "-o", "yaml").stdout)["kind"] == (
        "FournosSchedule"
    )


def test_a_schedule_that_the_operator_refuses_says_why() -> None:
    refused = {"type": "Accepted", "status": "False", "reason": "Invalid", "message": "no zone Mars"}
    api = Api(schedule(timeZone="Mars/Base", status={"conditions": [refused]}))
    shown = Program(api)("schedule", "get", "nightly")
    assert shown.exit_code == 0 and "nightly  Invalid" in shown.stdout and "no zone Mars" in shown.stdout


def test_a_missing_one_is_answered_with_a_similar_name() -> None:
    result = Program(Api(schedule()))("schedule", "get", "nightli")
    assert result.exit_code == 5 and "did you mean nightly?" in result.stderr


# --- fournos schedule suspend, resume, trigger, delete ---------------------------------------------------


@pytest.mark.parametrize(
    ("words", "pause", "says"),
    [
        ((), {"reason": None, "until": None}, "until: fournos schedule resume nightly"),
        (("--reason", "new GPUs"), {"reason": "new GPUs", "until": None}, "suspended"),
        (("--until", "7d"), {"reason": None, "until": "2030-01-08T12:00:00Z"}, "until 2030-01-08T12:00:00Z"),
        (("--until", "2030-01-05"), {"reason": None, "until": "2030-01-04T23:00:00Z"}, "2030-01-04T23"),
        (
            ("--until", "2030-01-05T08:00:00Z"),
            {"reason": None, "until": "2030-01-05T08:00:00Z"},
            "2030-01-05T08",
        ),
    ],
)
def test_suspending_writes_reason_and_end(words: tuple[str, ...], pause: dict[str, Any], says: str) -> None:
    api = Api(schedule())
    result = Program(api)("schedule", "suspend", "nightly", *words)
    assert result.exit_code == 0 and says in result.stdout
    assert api.writes == [("patch", "bench/nightly", {"spec": {"suspend": pause}, **OF_IT})]


@pytest.mark.parametrize(
    ("until", "says"), [("2020-01-01", "has passed already"), ("tomorrow", "'tomorrow' is no time")]
)
def test_an_end_that_cannot_be_is_refused(until: str, says: str) -> None:
    api = Api(schedule())
    result = Program(api)("schedule", "suspend", "nightly", "--until", until)
    assert result.exit_code == 2 and says in result.stderr
    assert api.writes == []


def test_resuming_removes_the_suspension() -> None:
    api = Api(schedule(suspend={"reason": "x"}))
    result = Program(api)("schedule", "resume", "nightly")
    assert result.exit_code == 0 and "nightly resumed" in result.stdout
    assert api.writes == [("patch", "bench/nightly", {"spec": {"suspend": None}, **OF_IT})]
    result = Program(Api(schedule()))("schedule", "resume", "nightly")
    assert result.exit_code == 2 and "nightly is not suspended" in result.stderr


def test_a_trigger_is_an_id_of_its_own() -> None:
    api = Api(schedule())
    result = Program(api)("schedule", "trigger", "nightly", "--no-wait")
    assert (result.exit_code, result.stdout) == (0, "nightly triggered\n"), result.stderr
    ((_, key, body),) = api.writes
    assert (key, body["metadata"]["uid"]) == ("bench/nightly", "uid-nightly")
    assert body["metadata"]["annotations"][TRIGGER_ANNOTATION]


def taken_up(monkeypatch: pytest.MonkeyPatch, *jobs: dict[str, Any]) -> Api:
    """An operator that has taken up the trigger abc, and made these jobs."""
    monkeypatch.setattr("secrets.token_hex", lambda length: "abc")
    return Api(schedule(status={"lastTrigger": "abc"}), *jobs)


def test_a_trigger_names_its_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    made = child("nightly-7", "New")
    made["metadata"]["annotations"] = {TRIGGER_ANNOTATION: "abc"}
    api = taken_up(monkeypatch, made, child("nightly-0", "Succeeded"))
    result = Program(api)("schedule", "trigger", "nightly")
    assert (result.exit_code, result.stdout) == (0, "nightly-7 created\n"), result.stderr
    names = Program(api)("schedule", "trigger", "nightly", "-o", "name")
    assert names.stdout == "fournosjob.fournos.dev/nightly-7\n"


def test_a_trigger_that_made_nothing_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    result = Program(taken_up(monkeypatch))("schedule", "trigger", "nightly")
    assert result.exit_code == 1 and "no jobs were created" in result.stderr


def with_jobs() -> Api:
    return Api(
        schedule(),
        child("nightly-0", "Succeeded"),
        child("nightly-1", "Running"),
        child("other", "Running", of="other"),
    )


def test_deleting_says_what_stays() -> None:
    api = with_jobs()
    result = Program(api)("schedule", "delete", "nightly")
    assert result.stdout.splitlines() == ["nightly deleted", "2 jobs stay (1 of them under way)"]
    assert f"fournos list -l {SCHEDULE_UID_LABEL}=uid-nightly" in result.stderr
    assert api.writes == [("delete", "bench/nightly", "uid-nightly")]


def test_a_cascade_deletes_its_jobs_and_no_other_after_the_schedule() -> None:
    api = with_jobs()
    result = Program(api)("schedule", "delete", "nightly", "--cascade")
    assert result.stdout.splitlines() == ["nightly deleted", "nightly-0 deleted", "nightly-1 deleted"]
    assert api.writes == [
        ("delete", "bench/nightly", "uid-nightly"),
        ("delete", "bench/nightly-0", "uid-nightly-0"),
        ("delete", "bench/nightly-1", "uid-nightly-1"),
    ]
