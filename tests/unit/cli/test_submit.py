"""fournos submit: manifests, --set, names, the rules, dry runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fournos.api.kinds import FOURNOS_JOB
from fournos.cli.submit import put
from fournos.engine.kube.errors import InvalidError
from fournos.insight import manifests as m
from fournos.insight.errors import ManifestError
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NS, job

MANIFEST = """\
apiVersion: fournos.dev/v1
kind: FournosJob
metadata:
  generateName: nightly-
spec:
  cluster: cluster-1
  executionEngine:
    forge:
      project: llmd
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(MANIFEST)
    return str(path)


def created(api: Api) -> dict[str, Any]:
    ((verb, body),) = api.writes
    assert verb == "create"
    return body  # type: ignore[no-any-return]


def test_a_file_becomes_a_job(file: str) -> None:
    api = Api()
    result = Program(api)("submit", "-f", file)
    assert (result.exit_code, result.stdout) == (0, "nightly-x7k2m submitted to bench\n")
    assert created(api) == {
        **yaml.safe_load(MANIFEST),
        "metadata": {"generateName": "nightly-", "namespace": NS},
    }


def test_standard_input_name_owner_and_set() -> None:
    api = Api()
    program = Program(api, env={"FOURNOS_OWNER": "me"})
    arguments = ("--set", "hardware.gpuType=a100", "--set", "hardware.gpuCount=4", "--name", "n1")
    result = program("submit", "-f", "-", *arguments, "-n", "other", "-o", "name", stdin=MANIFEST)
    assert (result.exit_code, result.stdout) == (0, "fournosjob.fournos.dev/n1\n")
    body = created(api)
    assert body["metadata"] == {"name": "n1", "namespace": "other"}
    assert body["spec"]["hardware"] == {"gpuType": "a100", "gpuCount": 4}
    assert body["spec"]["owner"] == "me"


def test_from_set_alone_a_name_is_generated() -> None:
    api = Api()
    arguments = ("--set", "exclusive=false", "--set", "executionEngine.forge.project=llmd")
    assert Program(api)("submit", *arguments).exit_code == 0
    assert created(api)["metadata"]["generateName"] == "fournos-full-"


def test_what_a_field_takes_as_text_needs_no_quotes() -> None:
    api = Api()
    written = (
        "env.BATCH=8",
        "env.VERSION=1.10",
        "params.sizes=[1, 2]",
        "metadata.labels.try=3",
        "env.ON=true",
    )
    arguments = [word for path in (*written, "exclusive=false", "env.Q='8'") for word in ("--set", path)]
    assert Program(api)("submit", *arguments, "--set", "executionEngine.x.n=8").exit_code == 0
    body = created(api)
    assert body["spec"]["env"] == {"BATCH": "8", "VERSION": "1.10", "ON": "true", "Q": "8"}
    assert body["spec"]["params"] == {"sizes": ["1", "2"]}
    assert body["metadata"]["labels"] == {"try": "3"}
    assert (body["spec"]["exclusive"], body["spec"]["executionEngine"]) == (False, {"x": {"n": 8}})


def test_a_job_is_submitted_several_times(file: str) -> None:
    api = Api()
    result = Program(api)("submit", "-f", file, "--name", "nightly", "--repeat", "3")
    assert result.exit_code == 0, result.stderr
    names = [(body["metadata"].get("name"), body["metadata"]["generateName"]) for _, body in api.writes]
    assert names == [(None, "nightly-")] * 3
    watched = Program(Api())("submit", "-f", file, "--repeat", "2", "--watch")
    assert (watched.exit_code, "--watch follows one job, here are 2" in watched.stderr) == (2, True)


def test_every_violation_names_its_field_and_nothing_is_sent(tmp_path: Path) -> None:
    api = Api()
    path = tmp_path / "two.yaml"
    bad = {**yaml.safe_load(MANIFEST), "spec": {"clusterr": "x", "hardware": {"gpuCount": 0}}}
    path.write_text(f"{MANIFEST}---\n{yaml.safe_dump(bad)}---\n{yaml.safe_dump({**bad, 'spec': {}})}")
    result = Program(api)("submit", "-f", str(path))
    assert result.exit_code == 2
    assert "spec.clusterr: unknown field: did you mean cluster?" in result.stderr
    assert "spec.hardware.gpuCount: write at least 1" in result.stderr
    assert "spec.executionEngine: name the execution engine" in result.stderr
    assert "Fix: " in result.stderr
    assert api.writes == []


def test_a_generated_name_that_gets_too_long_is_refused_here(file: str) -> None:
    result = Program(Api())("submit", "-f", file, "--generate-name", "n" * 52)
    assert result.exit_code == 2
    assert "metadata.name: use a name of at most 55" in result.stderr


def test_dry_run_on_the_client_needs_no_cluster(file: str) -> None:
    program = Program(Api())
    result = program("submit", "-f", file, "--set-string", "env.N=1", "--dry-run", "client")
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["spec"]["env"] == {"N": "1"}
    assert program.connected == []


def test_dry_run_on_the_server_creates_nothing(file: str) -> None:
    api = Api()
    result = Program(api)("submit", "-f", file, "--dry-run", "server", "-o", "json")
    assert result.exit_code == 0
    assert [verb for verb, _ in api.writes] == ["dry run"]
    assert not api.objects.get(FOURNOS_JOB)


def test_a_refusal_of_the_server_is_reported(file: str) -> None:
    api = Api()
    api.fails["create", FOURNOS_JOB] = InvalidError('FournosJob "n" is invalid: spec.x: no', status=422)
    result = Program(api)("submit", "-f", file)
    assert result.exit_code == 2
    assert "spec.x: no" in result.stderr
    taken = Program(Api(job("n1")))("submit", "-f", file, "--name", "n1")
    assert taken.exit_code == 2
    assert "choose another name" in taken.stderr


def test_watch_follows_to_the_end(file: str) -> None:
    api = Api()
    api.script = [
        ("MODIFIED", job("nightly-x7k2m", "Pending", status={"message": "Waiting"})),
        ("MODIFIED", job("other", "Succeeded")),
        ("MODIFIED", job("nightly-x7k2m", "Failed", status={"message": "Task broke"})),
    ]
    result = Program(api)("submit", "-f", file, "--watch")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "nightly-x7k2m Failed: Task broke"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "no job to submit"),
        (("-f", "/nowhere/job.yaml"), "cannot read /nowhere/job.yaml: No such file"),
        (("-f", "-", "--name", "a", "--generate-name", "b"), "exclude one another"),
        (("-f", "-", "--set", "cluster"), "is not path=value"),
        (("-f", "-", "--set", "cluster.x=1"), "spec.cluster is not a map"),
        (("-f", "-", "--set", "env.A=[1"), "the value is not YAML"),
        (("-f", "-", "-n", "here", "--set", "metadata.namespace=there"), "says namespace there"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], told: str) -> None:
    result = Program(Api())("submit", *arguments, stdin=MANIFEST)
    assert result.exit_code == 2
    assert told in result.stderr
    assert "Fix: " in result.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [1", "line 1, column"),
        ("", "holds no FournosJob"),
        ("just text", "which is not an object"),
        ("kind: Pod", "holds a Pod"),
        ("a: 1", "document without a kind"),
    ],
)
def test_what_is_no_manifest(text: str, told: str) -> None:
    with pytest.raises(ManifestError) as failure:
        m.parse(text, "x.yaml")
    assert told in failure.value.message


def test_lists_are_unpacked() -> None:
    text = yaml.safe_dump({"kind": "List", "items": [yaml.safe_load(MANIFEST)] * 2})
    assert len(m.parse(text, "x.yaml")) == 2


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("cluster=c1", {"spec": {"cluster": "c1"}}),
        ("spec.exclusive=false", {"spec": {"exclusive": False}}),
        ("metadata.labels.a\\.b/c=x", {"metadata": {"labels": {"a.b/c": "x"}}}),
        ("secretRefs=[a, b]", {"spec": {"secretRefs": ["a", "b"]}}),
        ("env.URL=a=b", {"spec": {"env": {"URL": "a=b"}}}),
    ],
)
def test_set(assignment: str, expected: dict[str, Any]) -> None:
    manifest: dict[str, Any] = {}
    put(manifest, assignment)
    assert manifest == expected


def test_set_to_nothing_removes_the_field() -> None:
    manifest = {"spec": {"priority": "high", "cluster": "c1"}}
    put(manifest, "priority=")
    assert manifest == {"spec": {"cluster": "c1"}}


# --- names that nothing has ---------------------------------------------------------------------------


def test_a_typo_is_refused_with_the_near_name_unless_forced(file: str) -> None:
    api = Api(flavors=[{"metadata": {"name": "cluster-1"}}])
    assert Program(api)("submit", "-f", file).exit_code == 0
    api.writes.clear()
    result = Program(api)("submit", "-f", file, "--set", "cluster=cluster1", "--repeat", "3")
    assert result.exit_code == 2 and not api.writes
    assert "spec.cluster: there is no cluster cluster1: is cluster-1 meant?" in result.stderr
    assert "--force" in result.stderr
    assert Program(api)("submit", "-f", file, "--set", "cluster=cluster1", "--force").exit_code == 0
    assert len(api.writes) == 1
