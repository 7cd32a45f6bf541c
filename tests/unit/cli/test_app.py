"""The program itself: its help, its names, its completion, and the plugin of kubectl."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fournos.app.parts import PACKAGES
from fournos.cli.app import COMMANDS
from fournos.cli.operate import SYSTEMS
from tests.unit.cli.api import Api, Program

ROOT = Path(__file__).parents[3]
OPTIONAL = ("sqlalchemy", "alembic", "jinja2", "obstore")
"""Packages of extras: the command line is used without them, too."""


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "KUBECONFIG": "/nonexistent", **environment},
        check=True,
    )
    return done.stdout


def test_names_are_unique() -> None:
    names = [name for _, names, _ in COMMANDS for name in names]
    assert len(names) == len(set(names))


def test_help_lists_commands_with_examples_and_exit_codes_and_hides_aliases() -> None:
    text = Program(Api())("--help").stdout
    listed = {words[1] for line in text.splitlines() if len(words := line.split()) > 2 and words[0] == "│"}
    assert {"submit", "cluster", "run", "doctor"} <= listed
    assert not {"create", "ls", "rm", "why"} & listed
    assert "  fournos stop @last " in text and " 130  interrupted" in text


@pytest.mark.parametrize("words", [("stop",), ("rm",), ("cluster", "lock"), ("minicluster", "logs")])
def test_a_command_has_its_own_help(words: tuple[str, ...]) -> None:
    result = Program(Api())(*words, "--help")
    assert result.exit_code == 0
    assert "Common options" in result.stdout
    assert f"fournos {' '.join(words).replace('rm', 'delete')}" in result.stdout


def test_a_mistyped_command_is_answered_with_a_similar_one() -> None:
    result = Program(Api())("sumbit")
    assert result.exit_code == 2
    assert "No such command 'sumbit'. Did you mean 'submit'" in " ".join(result.stderr.split())


def test_help_needs_no_package_of_an_extra() -> None:
    code = (
        f"import sys\nfor name in {OPTIONAL}: sys.modules[name] = None\nsys.argv = ['fournos', '--help']\n"
        "from fournos.cli import main\nmain()"
    )
    assert "Submit jobs." in python(code)


def test_the_help_of_run_names_every_part() -> None:
    assert tuple(PACKAGES) == SYSTEMS


def test_version() -> None:
    assert Program(Api())("--version").stdout.startswith("fournos 0.")


@pytest.mark.parametrize(
    ("words", "expected"), [("li", "list"), ("cluster un", "unlock"), ("submit --dry-run se", "server")]
)
def test_words_are_completed(words: str, expected: str) -> None:
    typed = {"COMP_WORDS": f"fournos {words}", "COMP_CWORD": str(len(words.split()))}
    code = "import sys; sys.argv = ['fournos']; from fournos.cli import main; main()"
    assert python(code, _FOURNOS_COMPLETE="complete_bash", **typed).split() == [expected]


def test_its_programs_are_installed_with_the_package() -> None:
    scripts: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts.keys() == {"fournos", "kubectl-fournos"}
    for target in scripts.values():
        module, _, name = target.partition(":")
        assert callable(getattr(import_module(module), name))


@pytest.mark.parametrize(
    ("program", "shown"),
    [("/usr/bin/kubectl-fournos", "kubectl fournos"), ("/usr/bin/fournos", "fournos")],
)
def test_the_usage_shows_what_is_typed(program: str, shown: str) -> None:
    code = f"import sys; sys.argv = [{program!r}, 'stop', '--help']; from fournos.cli import main; main()"
    assert f"Usage: {shown} stop " in python(code)
