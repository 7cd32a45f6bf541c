"""fournos schedule create: what is written, and what is refused before."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NS
from tests.unit.cli.schedules import JOB

NIGHTLY = ("--cron", "0 2 * * *", "--time-zone", "Europe/Berlin")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return str(path)


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
        *("--concurrency", "replace", "--owner", "me", "--deadline", "1h30m"),
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
        "concurrencyPolicy": "Replace",
        "startingDeadlineSeconds": 5400,
    }


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
        (("--deadline", "soon"), "--deadline: 'soon' is not a duration", "--deadline 30m"),
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
    from fournos.engine.queueing.kinds import RESOURCE_FLAVOR

    api = Api()
    api.add(RESOURCE_FLAVOR, {"metadata": {"name": "cluster-2"}})
    result = Program(api)("schedule", "create", "nightly", "-f", file, *NIGHTLY)
    assert result.exit_code == 2 and "there is no cluster cluster-1" in result.stderr
    assert api.writes == []
    assert Program(api)("schedule", "create", "nightly", "-f", file, *NIGHTLY, "--force").exit_code == 0


def test_a_dry_run_prints_a_manifest(file: str) -> None:
    api = Api()
    result = Program(api)("schedule", "create", "nightly", "-f", file, *NIGHTLY, "--dry-run", "client")
    assert (result.exit_code, api.writes) == (0, [])
    assert yaml.safe_load(result.stdout)["spec"]["schedules"] == ["0 2 * * *"]
    asked = Program(api)("schedule", "create", "nightly", "-f", file, *NIGHTLY, "--dry-run", "server")
    assert yaml.safe_load(asked.stdout)["metadata"]["namespace"] == NS
    assert [verb for verb, *_ in api.writes] == ["dry run"]
