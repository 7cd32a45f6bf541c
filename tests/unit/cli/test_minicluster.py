"""fournos minicluster render: what a MiniCluster is made of, without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster import manifests
from fournos.cli.errors import Exit
from tests.unit.cli.api import Api, Program

HELLO = """\
apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata: {name: flux-sample}
spec:
  size: 4
  containers:
  - image: ubuntu
    command: echo hello world
"""


@pytest.fixture
def program() -> Program:
    return Program(Api())


def written(folder: Path, text: str) -> str:
    path = folder / "minicluster.yaml"
    path.write_text(text)
    return str(path)


def test_all_objects_are_printed(program: Program, tmp_path: Path) -> None:
    result = program("minicluster", "render", "-f", written(tmp_path, HELLO), "-n", "mine")
    assert result.exit_code == 0
    objects = manifests.parse(result.stdout)
    assert [f"{one['kind']}/{one['metadata']['name']}" for one in objects] == [
        "Secret/flux-sample-curve",
        "Service/flux-service",
        "ConfigMap/flux-sample-entrypoint",
        "Job/flux-sample",
    ]
    assert {one["metadata"]["namespace"] for one in objects} == {"mine"}
    assert not any("ownerReferences" in one["metadata"] for one in objects)
    assert objects[0]["stringData"] == {"curve.cert": "made by the operator"}


def test_one_file_is_printed_as_it_is(program: Program, tmp_path: Path) -> None:
    path = written(tmp_path, HELLO)
    assert program("minicluster", "render", "-f", path, "--only", "hostlist").stdout == "flux-sample-[0-3]\n"
    script = program("minicluster", "render", "-f", path, "--only", "wait-0").stdout
    assert script.startswith("#!/bin/bash\n")
    result = program("minicluster", "render", "-f", path, "--only", "wait-7")
    assert result.exit_code == Exit.USAGE
    assert "name one of flux-init, wait-0" in result.stderr


def test_a_certificate_is_made_on_demand(program: Program, tmp_path: Path) -> None:
    path = written(tmp_path, HELLO)
    texts = [
        manifests.parse(program("minicluster", "render", "-f", path, "--certificate").stdout)[0]
        for _ in range(2)
    ]
    first, second = (text["stringData"]["curve.cert"] for text in texts)
    assert "secret-key" in first
    assert first != second


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("size: 4", "size: 0"), "spec.size: write at least 1"),
        (("command:", "comand:"), "did you mean command?"),
        (("{name: flux-sample}", "{}"), "metadata.name: write a name"),
        (("kind: MiniCluster", "kind: Other"), "holds 0 MiniClusters"),
        (("v1alpha2", "v1alpha1"), "write apiVersion: flux-framework.org/v1alpha2"),
    ],
)
def test_the_preview_shows_what_would_be_refused(
    program: Program, tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    result = program("minicluster", "render", "-f", written(tmp_path, HELLO.replace(*change)))
    assert result.exit_code == Exit.USAGE
    assert says in result.stderr.replace("\n", " ").replace("  ", " ")
    assert result.stdout == ""
