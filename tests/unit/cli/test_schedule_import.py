"""fournos schedule import: CronJobs of the published dashboard as schedules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NS

JOB: dict[str, Any] = {
    "apiVersion": "fournos.dev/v1",
    "kind": "FournosJob",
    "metadata": {
        "generateName": "forge-llmd-sched-",
        "labels": {"fournos-launcher/schedule-name": "llmd", "fournos-launcher/trigger-type": "scheduled"},
    },
    "spec": {
        "owner": "fournos-dashboard/scheduler",
        "cluster": "cluster-1",
        "exclusive": True,
        "executionEngine": {"forge": {"project": "llmd", "args": ["smoke"]}},
    },
}


def cron_job(name: str = "llmd", *, job: Any = JOB, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    variables = [{"name": "NAMESPACE", "value": NS}, {"name": "FJOB_JSON", "value": json.dumps(job)}]
    pod = {"containers": [{"name": "submit", "image": "python:3.12-slim", "env": variables}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": f"uid-{name}",
            "labels": {"fournos-launcher/managed-by": "fournos-dashboard"},
            "annotations": annotations or {},
        },
        "spec": {"schedule": "0 2 * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}, **spec},
    }


def test_a_cron_job_becomes_a_schedule_of_its_job() -> None:
    api = Api(
        cron_job(
            timeZone="Europe/Berlin", concurrencyPolicy="Allow", startingDeadlineSeconds=600, suspend=True
        )
    )
    result = Program(api)("schedule", "import")
    assert result.exit_code == 0, result.stderr
    assert yaml.safe_load(result.stdout) == {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosSchedule",
        "metadata": {"name": "llmd"},
        "spec": {
            "schedules": ["0 2 * * *"],
            "timeZone": "Europe/Berlin",
            "jobTemplate": {"metadata": {"labels": JOB["metadata"]["labels"]}, "spec": JOB["spec"]},
            "concurrencyPolicy": "Allow",
            "startingDeadlineSeconds": 600,
            "suspend": {"reason": "its CronJob was suspended"},
        },
    }
    assert (api.writes, result.stderr) == ([], "")


def test_what_is_not_taken_over_is_said() -> None:
    notes = {"fournos-launcher/resolver-configmap": "llmd-resolver"}
    api = Api(cron_job(annotations=notes, concurrencyPolicy="Forbid", schedule="@midnight"))
    result = Program(api)("schedule", "import", "--time-zone", "Etc/UTC", "-o", "json")
    assert "llmd: its resolver script (ConfigMap llmd-resolver) is not taken over" in result.stderr
    assert "that of the schedule is about running jobs" in result.stderr
    (made,) = json.loads(result.stdout)["items"]
    assert (made["spec"]["schedules"], made["spec"]["timeZone"]) == (["@daily"], "Etc/UTC")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"timeZone": None}, "name that of its times, --time-zone Etc/UTC"),
        ({"schedule": "@every 2h"}, "'@every 2h' is no time of a schedule"),
        ({"schedule": "0 2 * * 5L"}, "is no time of a schedule"),
        ({"job": {"spec": {"clusterr": "x"}}}, "unknown field: did you mean cluster?"),
        ({"job": "no job"}, "FJOB_JSON is no FournosJob"),
        ({"jobTemplate": {}}, "no container has the variable FJOB_JSON"),
    ],
)
def test_what_cannot_be_a_schedule_is_said_and_the_others_are_printed(changes: Any, says: str) -> None:
    api = Api(cron_job("a", **{"timeZone": "Etc/UTC", **changes}), cron_job("b", timeZone="Etc/UTC"))
    result = Program(api)("schedule", "import")
    assert result.exit_code == 1
    assert "a is not imported: " in result.stderr and says in result.stderr
    assert yaml.safe_load(result.stdout)["metadata"]["name"] == "b"


def test_only_cron_jobs_of_the_dashboard_and_those_that_are_named(tmp_path: Path) -> None:
    other = cron_job("other", timeZone="Etc/UTC")
    other["metadata"]["labels"] = {}
    api = Api(cron_job("a", timeZone="Etc/UTC"), cron_job("b", timeZone="Etc/UTC"), other)
    assert len(list(yaml.safe_load_all(Program(api)("schedule", "import").stdout))) == 2
    named = Program(api)("schedule", "import", "b", "-o", "name")
    assert named.stdout == "fournosschedule.fournos.dev/b\n"
    assert Program(api)("schedule", "import", "other").exit_code == 5
    path = tmp_path / "cronjobs.yaml"
    path.write_text(yaml.safe_dump_all([JOB, other]))
    from_file = Program(Api())("schedule", "import", "-f", str(path), "-o", "name")
    assert from_file.stdout == "fournosschedule.fournos.dev/other\n"
