"""The plugin of kubectl: its programs are installed, and words are completed in kubectl's form."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def completed(*words: str) -> list[str]:
    """As kubectl runs the program."""
    code = "from fournos.cli.kubectl import complete; complete()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "KUBECONFIG": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, env=environment, check=True
    )
    *lines, directive = done.stdout.splitlines()
    assert directive == ":4"
    return lines


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("li",), ["list"]),
        (("cluster", "un"), ["unlock"]),
        (("list", "--ph"), ["--phase"]),
        (("submit", "--dry-run", "se"), ["server"]),
        (("get", "o'clock; rm -rf $(x)"), []),
    ],
)
def test_words_are_completed(words: tuple[str, ...], expected: list[str]) -> None:
    found = completed(*words)
    assert [line.partition("\t")[0] for line in found] == expected


def test_the_last_word_may_be_empty() -> None:
    assert {line.partition("\t")[0] for line in completed("cluster", "")} >= {"list", "lock", "drain"}


def test_its_programs_are_installed_with_the_package() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts.keys() == {"fournos", "kubectl-fournos", "kubectl_complete-fournos"}
    for target in scripts.values():
        module, _, name = target.partition(":")
        assert callable(getattr(import_module(module), name))


@pytest.mark.parametrize(
    ("program", "shown"),
    [("/usr/bin/kubectl-fournos", "kubectl fournos"), ("/usr/bin/fournos", "fournos")],
)
def test_the_usage_shows_what_is_typed(program: str, shown: str) -> None:
    code = f"import sys; sys.argv = [{program!r}, 'stop', '--help']; from fournos.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.startswith(f"Usage: {shown} stop ")
