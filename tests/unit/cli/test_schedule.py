"""fournos schedule …: what is shown, what is refused, what is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fournos.systems.schedules.names import SCHEDULE_UID_LABEL, TRIGGER_ANNOTATION
from fournos.systems.schedules.trigger import parsed
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NS, ago, job

JOB = """\
apiVersion: fournos.dev/v1
kind: FournosJob
metadata:
  generateName: nightly-
  labels: {team: perf}
spec:
  cluster: cluster-1
  executionEngine:
    forge:
      project: llmd
"""
NIGHTLY = ("--cron", "0 2 * * *", "--time-zone", "Europe/Berlin")


def schedule(name: str = "nightly", *, status: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosSchedule",
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": f"uid-{name}",
            "generation": 1,
            "creationTimestamp": ago(days=3),
        },
        "spec": {
            "schedules": ["0 2 * * *"],
            "timeZone": "Europe/Berlin",
            "jobTemplate": {"spec": yaml.safe_load(JOB)["spec"]},
            "concurrencyPolicy": "Forbid",
            **spec,
        },
        "status": {
            "lastStartTime": "2030-01-01T01:00:00Z",
            "lastScheduleTime": "2030-01-01T01:00:00Z",
            "nextTime": "2030-01-02T01:00:00Z",
            "lastFire": {"time": "2030-01-01T01:00:00Z", "outcome": "Succeeded"},
            **(status or {}),
        },
    }


def child(name: str, phase: str, of: str = "nightly") -> dict[str, Any]:
    return job(name, phase, labels={SCHEDULE_UID_LABEL: f"uid-{of}"})


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return str(path)


# --- create ----------------------------------------------------------------------------------------------


def test_a_schedule_is_created_and_its_next_times_are_shown(file: str) -> None:
    api = Api()
    result = Program(api)("schedule", "create", "nightly", "-f", file, *NIGHTLY)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        "nightly created in bench: 1 job each time",
        "  Wed 2030-01-02 02:00+01:00",
        "  Thu 2030-01-03 02:00+01:00",
        "  Fri 2030-01-04 02:00+01:00",
    ]
    assert api.writes == [
        (
            "create",
            {
                "apiVersion": "fournos.dev/v1",
                "kind": "FournosSchedule",
                "metadata": {"name": "nightly", "namespace": NS},
                "spec": {
                    "schedules": ["0 2 * * *"],
                    "timeZone": "Europe/Berlin",
                    "jobTemplate": {
                        "metadata": {"labels": {"team": "perf"}},
                        "spec": yaml.safe_load(JOB)["spec"],
                    },
                },
            },
        )
    ]


def test_each_option_is_a_field(file: str) -> None:
    api = Api()
    options = (
        *("--axis", "params.model=a,b", "--axis", "spec.hardware.gpuCount=1,2"),
        *("--set", "hardware.gpuType=a100", "--set-string", "params.tag=7"),
        *("--concurrency", "queue", "--skip-unchanged", "params", "--owner", "me"),
        *("--deadline", "1h30m", "--jitter", "5m", "--exclude", "2026-12-24", "--exclude", "08:00-18:00"),
    )
    result = Program(api)(
        "schedule", "create", "nightly", "-f", file, *NIGHTLY, "--cron", "@weekly", *options
    )
    assert result.exit_code == 0, result.stderr
    assert "4 jobs each time" in result.stdout
    ((_, body),) = api.writes
    assert body["spec"].pop("jobTemplate")["spec"] == {
        **yaml.safe_load(JOB)["spec"],
        "hardware": {"gpuType": "a100"},
        "params": {"tag": "7"},
        "owner": "me",
    }
    assert body["spec"] == {
        "schedules": ["0 2 * * *", "@weekly"],
        "timeZone": "Europe/Berlin",
        "matrix": {"params.model": ["a", "b"], "hardware.gpuCount": [1, 2]},
        "concurrencyPolicy": "Queue",
        "skipUnchanged": {"of": "Params"},
        "startingDeadlineSeconds": 5400,
        "jitterSeconds": 300,
        "exclusions": {"dates": ["2026-12-24"], "windows": [{"from": "08:00", "to": "18:00"}]},
    }


def test_git_ref_names_the_fields_of_the_commit(file: str) -> None:
    options = (
        "--skip-unchanged",
        "gitref",
        "--unchanged-field",
        "spec.params.sha",
        "--unchanged-field",
        "env.SHA",
    )
    api = Api()
    result = Program(api)("schedule", "create", "nightly", "-f", file, *NIGHTLY, *options)
    assert result.exit_code == 0, result.stderr
    ((_, body),) = api.writes
    assert body["spec"]["skipUnchanged"] == {"of": "GitRef", "fields": ["params.sha", "env.SHA"]}


@pytest.mark.parametrize(
    ("options", "says", "fix"),
    [
        (("--cron", "0 2 L * *"), "'0 2 L * *' is no time of a schedule", "write five fields"),
        (("--cron", "0 2 * * 5#2"), "'0 2 * * 5#2' is no time", "are of other dialects"),
        (("--cron", "0 0 2 * * *"), "'0 0 2 * * *' is no time", "a field of seconds"),
        (("--cron", "0 0 31 2 *"), "'0 0 31 2 *' is no time", "write five fields"),
        (("--time-zone", "Europe/Berln"), "'Europe/Berln' is no time zone", "write Europe/Berlin"),
        (("--time-zone", "berlin"), "'berlin' is no time zone", "write Europe/Berlin"),
        (("--time-zone", "nowhere-at-all"), "is no time zone", "such as Europe/Berlin or Etc/UTC"),
        (("--axis", "params.model="), "--axis 'params.model=' is not path=value,value", "gpuCount=1,2,4"),
        (("--axis", "metadata.labels.a=b,c"), "is no field of a job's spec", "params.model"),
        (
            ("--axis", "hardware.gpuCount=0,1", "--set", "hardware.gpuType=a100"),
            "spec.jobTemplate.spec.hardware.gpuCount: write at least 1",
            "correct these fields",
        ),
        (("--set", "clusterr=a"), "spec.jobTemplate.spec.clusterr: unknown field", "correct"),
        (
            ("--axis", "params.a=1,2,3,4,5,6,7,8,9", "--axis", "params.b=1,2,3,4,5,6,7,8,9"),
            "81 combinations: write 1 to 64",
            "correct",
        ),
        (("--skip-unchanged", "gitref"), "spec.skipUnchanged.fields: with of: GitRef name", "correct"),
        (("--unchanged-field", "params.sha"), "without --skip-unchanged", "add --skip-unchanged GitRef"),
        (
            ("--skip-unchanged", "gitref", "--unchanged-field", "metadata.labels.sha"),
            "is no field of a job's spec",
            "params.model",
        ),
        (("--deadline", "soon"), "--deadline: 'soon' is not a duration", "--deadline 30m"),
        (("--exclude", "christmas"), "'christmas' is neither a day nor a part", "--exclude 2026-12-24"),
        (("--exclude", "2026-02-30"), "spec: ", "correct"),
    ],
)
def test_what_is_refused_before_anything_is_created(
    file: str, options: tuple[str, ...], says: str, fix: str
) -> None:
    given = {"--cron": "0 2 * * *", "--time-zone": "Etc/UTC"}
    given = {name: text for name, text in given.items() if name not in options}
    words = [part for pair in given.items() for part in pair]
    api = Api()
    result = Program(api)("schedule", "create", "nightly", "-f", file, *words, *options)
    assert result.exit_code == 2
    message, _, advice = result.stderr.partition("Fix: ")
    assert says in message and fix in advice
    assert api.writes == []


def test_a_name_that_nothing_has_is_refused_unless_forced(file: str) -> None:
    from fournos.insight.kueue_clusters import RESOURCE_FLAVOR

    api = Api()
    api.add(RESOURCE_FLAVOR, {"metadata": {"name": "cluster-2"}})
    result = Program(api)("schedule", "create", "nightly", "-f", file, *NIGHTLY)
    assert result.exit_code == 2 and "there is no cluster cluster-1" in result.stderr
    assert api.writes == []
    assert Program(api)("schedule", "create", "nightly", "-f", file, *NIGHTLY, "--force").exit_code == 0


def test_a_dry_run_prints_a_manifest_that_preview_takes(file: str, tmp_path: Path) -> None:
    api = Api()
    result = Program(api)("schedule", "create", "nightly", "-f", file, *NIGHTLY, "--dry-run", "client")
    assert (result.exit_code, api.writes) == (0, [])
    path = tmp_path / "schedule.yaml"
    path.write_text(result.stdout)
    shown = Program(api)("schedule", "preview", "-f", str(path), "--from", "2026-03-28", "--number", "2")
    assert shown.stdout.splitlines() == [
        "TIME                        NOTE",
        "Sat 2026-03-28 02:00+01:00",
        "Sun 2026-03-29 02:00        skipped: the clock is set from 02:00 to 03:00; its jobs start at 03:00",
        "Sun 2026-03-29 03:00+02:00  for 02:00",
    ]
    asked = Program(api)("schedule", "create", "nightly", "-f", file, *NIGHTLY, "--dry-run", "server")
    assert yaml.safe_load(asked.stdout)["metadata"]["namespace"] == NS
    assert [verb for verb, *_ in api.writes] == ["dry run"]


# --- list, get, preview ----------------------------------------------------------------------------------


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


def test_a_file_without_a_schedule_is_refused(file: str) -> None:
    result = Program(Api())("schedule", "preview", "-f", file)
    assert result.exit_code == 2 and "holds FournosJob" in result.stderr


# --- changes ---------------------------------------------------------------------------------------------


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
