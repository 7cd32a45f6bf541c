"""fournos schedule list, get, preview."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fournos.systems.schedules.names import SCHEDULE_UID_LABEL
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import ago
from tests.unit.cli.schedules import JOB, child, schedule


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
    assert yaml.safe_load(Program(api)("schedule", "get", "nightly", "-o", "yaml").stdout)["kind"] == (
        "FournosSchedule"
    )


def test_a_schedule_that_the_operator_refuses_says_why() -> None:
    refused = {"type": "Accepted", "status": "False", "reason": "Invalid", "message": "no zone Mars"}
    api = Api(schedule(timeZone="Mars/Base", status={"conditions": [refused]}))
    shown = Program(api)("schedule", "get", "nightly")
    assert shown.exit_code == 0 and "nightly  Invalid" in shown.stdout and "no zone Mars" in shown.stdout
    preview = Program(api)("schedule", "preview", "nightly", "--from", "2026-01-01")
    assert preview.exit_code == 2 and "'Mars/Base' is no time zone" in preview.stderr


def test_a_missing_one_is_answered_with_a_similar_name() -> None:
    result = Program(Api(schedule()))("schedule", "get", "nightli")
    assert result.exit_code == 5 and "did you mean nightly?" in result.stderr


def test_a_preview_has_jitter_exclusions_and_data() -> None:
    api = Api(schedule(jitterSeconds=600, exclusions={"dates": ["2030-01-03"]}))
    lines = Program(api)("schedule", "preview", "nightly", "--number", "2").stdout.splitlines()
    assert lines[0].split() == ["TIME", "STARTS", "NOTE"]
    assert lines[2].split() == ["Thu", "2030-01-03", "02:00+01:00", "-", "excluded:", "2030-01-03"]
    data = json.loads(Program(api)("schedule", "preview", "nightly", "--number", "2", "-o", "json").stdout)
    first, second = data["times"]
    assert first["time"] == "2030-01-02T02:00:00+01:00" and first["starts"].startswith("2030-01-02T01:0")
    assert second == {"time": "2030-01-03T02:00:00+01:00", "starts": None, "note": "excluded: 2030-01-03"}
    # What is shown to start is what the operator's own clock has.
    assert lines[1].split()[3].endswith(first["starts"][16:19])


def test_without_jitter_the_start_has_no_column_of_its_own() -> None:
    api = Api(schedule(schedules=["30 2 * * *"]))
    lines = Program(api)("schedule", "preview", "nightly", "--from", "2026-10-25").stdout.splitlines()
    assert lines[0].split() == ["TIME", "NOTE"]
    assert lines[1] == "Sun 2026-10-25 02:30+02:00  twice on the clock: only the first counts"


@pytest.mark.parametrize("words", [(), ("nightly", "-f", "schedule.yaml")])
def test_a_preview_is_of_a_name_or_of_a_file(words: tuple[str, ...]) -> None:
    result = Program(Api(schedule()))("schedule", "preview", *words)
    assert result.exit_code == 2 and "a name or a file" in result.stderr


def test_a_file_without_a_schedule_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    result = Program(Api())("schedule", "preview", "-f", str(file))
    assert result.exit_code == 2 and "holds FournosJob" in result.stderr
