"""The command for a manifest makes the same manifest."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from fournos.cli.manifest import put
from fournos.client.submission import axes_of
from fournos.insight.manifests import skeleton
from fournos.insight.submit_command import matrix_command, submit_command


def made_by(command: str) -> dict[str, Any]:
    """Does what the options of `fournos submit` do."""
    words = iter(shlex.split(command))
    made = skeleton()
    for word in words:
        match word:
            case "--set" | "--set-string":
                put(made, next(words), text=word == "--set-string")
            case "--name":
                made["metadata"]["name"] = next(words)
            case "--generate-name":
                made["metadata"]["generateName"] = next(words)
            case "-n":
                made["metadata"]["namespace"] = next(words)
            case _:
                assert word in ("fournos", "submit")
    return made


@pytest.mark.parametrize(
    "spec",
    [
        {"owner": "ann", "hardware": {"gpuCount": 4}, "exclusive": False},
        {"owner": "4", "displayName": "a: b", "cluster": "yes", "pipeline": "it's $HOME `x`"},
        {"env": {"A.B": "1", "c\\d": "two\nlines", "E": ""}},
        {"executionEngine": {"forge": {"args": ["a, b", {"c": [1, None]}], "empty": {}, "none": []}}},
        {"env": {"spec": "x", "metadata": "y"}},
    ],
)
@pytest.mark.parametrize("meta", [{"name": "one"}, {"generateName": "one-", "labels": {"a.b/c": "true"}}])
def test_the_command_makes_the_manifest(spec: dict[str, Any], meta: dict[str, Any]) -> None:
    manifest = {**skeleton(), "metadata": {"namespace": "bench", **meta}, "spec": spec}
    assert made_by(submit_command(manifest)) == manifest


def test_the_axes_of_a_matrix_are_those_of_the_form() -> None:
    axes = axes_of("hardware.gpuCount=1,2\n\nenv.MODEL = a b, 'c'\n")
    assert axes == {"hardware.gpuCount": [1, 2], "env.MODEL": ["a b", "c"]}
    words = shlex.split(matrix_command(axes, "bench"))
    assert words[:6] == ["fournos", "-n", "bench", "matrix", "-f", "job.yaml"]
    assert axes_of("\n".join(words[7::2])) == axes
