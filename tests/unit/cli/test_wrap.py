"""fournos wrap: plain manifests in, one AppWrapper out."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.unit.cli.api import Api, Program

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: worker
  labels: {app: x, kueue.x-k8s.io/queue-name: user-queue}
spec:
  containers: [{name: main, image: busybox}]
"""
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    paths = []
    for name, text in (("pod.yaml", POD), ("service.yaml", SERVICE)):
        (tmp_path / name).write_text(text)
        paths += ["-f", str(tmp_path / name)]
    return tuple(paths)


def test_two_files_become_one(files: tuple[str, ...]) -> None:
    result = Program(Api())("wrap", *files)
    assert result.exit_code == 0
    made = yaml.safe_load(result.stdout)
    assert made["metadata"] == {"name": "worker", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}}
    assert made["spec"]["suspend"] is True
    pod, service = (one["template"] for one in made["spec"]["components"])
    assert pod["metadata"] == {"name": "worker", "labels": {"app": "x"}}  # not queued by itself
    assert service == yaml.safe_load(SERVICE)


def test_name_queue_and_namespace_are_those_asked_for(files: tuple[str, ...]) -> None:
    made = yaml.safe_load(Program(Api())("wrap", *files, "--name", "n", "-q", "other", "-n", "team").stdout)
    labels = {"kueue.x-k8s.io/queue-name": "other"}
    assert made["metadata"] == {"name": "n", "namespace": "team", "labels": labels}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SERVICE, "no podspecs"),
        ("", "no manifest"),
        (POD.replace("name: worker", "generateName: w-"), "no name"),
        (POD.replace("spec:", "spec:\n  suspend: true"), "never run"),
        (POD.replace("user-queue", "a") + "---\n" + POD.replace("user-queue", "b"), "several queues"),
        (
            POD.replace("name: worker", "name: w, namespace: a}").replace("\n  labels: {", "\n#"),
            "is not YAML",
        ),
    ],
)
def test_what_cannot_be_wrapped_is_named(text: str, says: str) -> None:
    result = Program(Api())("wrap", "-f", "-", stdin=text)
    assert result.exit_code == 2
    assert says in result.stderr
