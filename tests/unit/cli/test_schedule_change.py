"""fournos schedule suspend, resume, trigger, delete."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.systems.schedules.names import SCHEDULE_UID_LABEL, TRIGGER_ANNOTATION
from fournos.systems.schedules.trigger import parsed
from tests.unit.cli.api import Api, Program
from tests.unit.cli.schedules import child, schedule


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
    assert api.writes == [("patch", "bench/nightly", {"spec": {"suspend": pause}})]


@pytest.mark.parametrize(
    ("until", "says"), [("2029-01-01", "has passed already"), ("tomorrow", "'tomorrow' is no time")]
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
    assert api.writes == [("patch", "bench/nightly", {"spec": {"suspend": None}})]
    result = Program(Api(schedule()))("schedule", "resume", "nightly")
    assert result.exit_code == 2 and "nightly is not suspended" in result.stderr


def test_a_trigger_writes_what_this_fire_sets() -> None:
    api = Api(schedule())
    options = ("--set", "params.model=1.10", "--set", "priority=", "--no-wait")
    result = Program(api)("schedule", "trigger", "nightly", *options)
    assert (result.exit_code, result.stdout) == (0, "nightly triggered\n"), result.stderr
    ((_, key, body),) = api.writes
    asked = parsed(body["metadata"]["annotations"][TRIGGER_ANNOTATION])
    assert (key, body["metadata"]["uid"]) == ("bench/nightly", "uid-nightly")
    assert asked is not None and asked.id
    assert asked.changes == {"params.model": "1.10", "priority": None}


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


def test_a_trigger_of_a_job_that_would_be_refused() -> None:
    api = Api(schedule())
    result = Program(api)("schedule", "trigger", "nightly", "--set", "clusterr=c")
    assert result.exit_code == 2 and "unknown field: did you mean cluster?" in result.stderr
    assert api.writes == []


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
