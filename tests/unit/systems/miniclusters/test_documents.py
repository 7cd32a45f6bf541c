"""Examples and samples are accepted, and can be rendered."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import manifests
from fournos.systems.miniclusters.rules import check_manifest
from tests.unit.cli.api import Api, Program

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "miniclusters.md").read_text()
SAMPLES = sorted(ROOT.glob("samples/minicluster*.yaml"))
EXAMPLES = [
    document
    for text in (*re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL),)
    for document in manifests.parse(text)
] + [
    document
    for path in SAMPLES
    for document in manifests.parse(path.read_text())
    if document["kind"] == "MiniCluster"
]
COMMANDS = [
    shlex.split(line)[1:] for line in re.findall(r"^fournos minicluster render .*$", PAGE, re.MULTILINE)
]


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda document: document["metadata"]["name"])
def test_an_example_is_accepted_and_rendered(document: Any, tmp_path: Path) -> None:
    assert check_manifest(document) == []
    (tmp_path / "example.yaml").write_text(yaml.safe_dump(document))
    result = Program(Api())("minicluster", "render", "-f", str(tmp_path / "example.yaml"))
    assert result.exit_code == 0
    kinds = [one["kind"] for one in manifests.parse(result.stdout)]
    assert kinds[:3] == ["Secret", "Service", "ConfigMap"]
    assert kinds[-1] == "Job"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_of_the_page_works(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert Program(Api())(*command).exit_code == 0


def test_the_page_and_the_samples_were_found() -> None:
    assert len(EXAMPLES) >= 8
    assert len(COMMANDS) >= 3
