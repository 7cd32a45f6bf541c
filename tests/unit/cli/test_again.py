"""fournos retry and matrix: what is written and what is said."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.errors import ForbiddenError
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import job


def test_a_retry_says_what_it_takes_over() -> None:
    api = Api(job("one", "Failed", spec={"shutdown": "Stop", "owner": "me"}))
    result = Program(api)("retry", "one", "--set", "priority=high", "--set", "hardware.gpuCount=4")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == (
        "one-x7k2m submitted to bench with the spec of one\n"
        "  taken over: cluster, exclusive, executionEngine, owner, pipeline\n"
        "  changed: hardware.gpuCount, priority\n"
        "  looked up again: the Pipeline and its images, the content of the secrets, secretRefs\n"
    )
    ((_, sent),) = api.writes
    assert "shutdown" not in sent["spec"]
    assert (sent["spec"]["priority"], sent["spec"]["hardware"]) == (
        "high",
        {"gpuType": "a100", "gpuCount": 4},
    )
    named = Program(Api(job("one", "Stopped")))("retry", "one", "-o", "name")
    assert named.stdout == "fournosjob.fournos.dev/one-x7k2m\n"


def test_only_what_has_ended_is_retried() -> None:
    api = Api(job("one", "Running"))
    refused = Program(api)("retry", "one")
    assert (refused.exit_code, api.writes) == (2, [])
    assert "one has not ended: it is Running" in refused.stderr
    ended = Api(job("one", "Failed"))
    wrong = Program(ended)("retry", "one", "--set", "hardware.gpuCount=0")
    assert (wrong.exit_code, ended.writes) == (2, [])
    assert "spec.hardware.gpuCount: write at least 1" in wrong.stderr


def test_a_retry_may_be_followed() -> None:
    api = Api(job("one", "Failed"))
    again = job("one-x7k2m", "Stopped")
    api.script = [("MODIFIED", again)]
    assert Program(api)("retry", "one", "--watch").exit_code == 3


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    spec = {"cluster": "cluster-1", "executionEngine": {"forge": {}}}
    manifest = {"apiVersion": "fournos.dev/v1", "kind": "FournosJob", "metadata": {}, "spec": spec}
    path.write_text(yaml.safe_dump(manifest))
    return str(path)


def test_a_matrix_submits_every_combination(file: str) -> None:
    api = Api()
    axes = ("--axis", "env.MODEL=a,'2'", "--axis", "exclusive=true,false")
    result = Program(api)("matrix", "-f", file, *axes, "--key", "k", "--label", "sweep")
    assert result.exit_code == 0, result.stderr
    lines = [line.split()[1:] for line in result.stdout.splitlines()]
    assert lines[:2] == [
        ["submitted", "env.MODEL=a", "exclusive=true"],
        ["submitted", "env.MODEL=a", "exclusive=false"],
    ]
    assert "4 jobs: fournos list -l fournos.dev/matrix=sweep" in result.stderr
    sent = [write[1]["spec"] for write in api.writes]
    assert sorted((spec["env"]["MODEL"], spec["exclusive"]) for spec in sent) == [
        ("2", False),
        ("2", True),
        ("a", False),
        ("a", True),
    ]
    again = Program(api)("matrix", "-f", file, *axes, "--key", "k", "--label", "sweep")
    assert (again.stdout, len(api.writes)) == (result.stdout, 4)


def test_a_matrix_repeats_each_combination_and_a_key_makes_no_more(file: str) -> None:
    api = Api()
    arguments = ("matrix", "-f", file, "--axis", "env.V=1.10,2", "--repeat", "2", "--key", "k")
    for _ in range(2):
        assert Program(api)(*arguments).exit_code == 0
    assert sorted(body["spec"]["env"]["V"] for _, body in api.writes) == ["1.10", "1.10", "2", "2"]


def test_a_matrix_is_waited_for(file: str) -> None:
    api = Api()
    arguments = ("matrix", "-f", file, "--axis", "env.MODEL=a,b", "--key", "k", "-o", "name")
    names = [line.rpartition("/")[2] for line in Program(api)(*arguments).stdout.splitlines()]
    for name, phase in zip(names, ("Succeeded", "Failed"), strict=True):
        stored = next(one for one in api.objects[FOURNOS_JOB].values() if one["metadata"]["name"] == name)
        stored["status"] = {"phase": phase}  # type: ignore[index]
    result = Program(api)(*arguments[:-2], "--wait")
    assert result.exit_code == 1
    assert [line.split() for line in result.stdout.splitlines()] == [
        [names[0], "Succeeded", "env.MODEL=a"],
        [names[1], "Failed", "env.MODEL=b"],
    ]
    assert "2 of 2: " in result.stderr


@pytest.mark.parametrize("axis", ["env.MODEL", "=1", "env.MODEL=", "env.MODEL=["])
def test_an_axis_that_is_none(file: str, axis: str) -> None:
    result = Program(Api())("matrix", "-f", file, "--axis", axis)
    assert result.exit_code == 2
    assert "--axis hardware.gpuCount=1,2,4" in result.stderr


def test_a_refusal_of_the_server_keeps_its_exit_code(file: str) -> None:
    api = Api()
    api.fails["create", FOURNOS_JOB] = ForbiddenError("may not create", status=403)
    result = Program(api)("matrix", "-f", file, "--axis", "env.MODEL=a")
    assert result.exit_code == 6
    assert "not allowed: may not create" in result.stderr
