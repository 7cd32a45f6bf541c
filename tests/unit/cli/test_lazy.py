"""A command's module is imported when the command is called; the help of the program is complete without."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from fournos.cli.app import COMMANDS, build
from fournos.cli.lazy import Placeholder, loaded
from fournos.cli.plain_help import summary_of
from tests.unit.cli.api import Api, Program

SOURCES = Path(__file__).parents[3] / "src"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCES), "COLUMNS": "100"}
HELP = "import sys; sys.argv = ['fournos', '--help']; from fournos.cli import main; main()"
HEAVY = (
    "aiohttp",
    "asyncio",
    "cryptography",
    "fournos.client",
    "fournos.cli.command",
    "fournos.insight",
    "fournos.systems.jobs",
    "fournos.engine.kube",
    "hvac",
    "prometheus_client",
    "pydantic",
    "requests",
    "rich.console",
    "yaml",
)
TRIES = 5


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT, check=True
    )
    return done.stdout


def seconds(code: str) -> float:
    begun = time.monotonic()
    python(code)
    return time.monotonic() - begun


def test_help_costs_at_most_twice_the_import_of_its_libraries() -> None:
    """Both are measured in turns, and the best of each counts: another process may take the processor."""
    pairs = [(seconds("import typer, rich"), seconds(HELP)) for _ in range(TRIES)]
    libraries, program = (min(times) for times in zip(*pairs, strict=True))
    assert program <= 2 * libraries, f"{program:.3f} s, and {libraries:.3f} s for typer and rich"


def test_help_imports_no_heavy_module() -> None:
    code = (
        "import sys\nsys.argv = ['fournos', '--help']\n"
        "from fournos.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    print('|', *sys.modules)"
    )
    text, _, modules = python(code).rpartition("|")
    assert "Print the logs of a job's tasks" in text
    assert set(HEAVY) & set(modules.split()) == set()


def test_a_command_imports_no_other() -> None:
    code = (
        "import sys\nsys.argv = ['fournos', 'version']\n"
        "from fournos.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    print('|', *sys.modules)"
    )
    modules = python(code).rpartition("|")[2].split()
    assert "fournos.cli.about" in modules
    assert not {"fournos.cli.submit", "fournos.cli.cluster", "fournos.cli.minicluster"} & set(modules)


def commands() -> dict[str, Any]:
    program: Any = get_command(build())
    return dict(program.commands)


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.names[0])
def test_the_summary_is_that_of_the_command(entry: Any) -> None:
    for name in entry.names:
        placeholder = commands()[name]
        assert isinstance(placeholder, Placeholder)
        command = loaded(placeholder)
        assert summary_of(command.help) == entry.summary
        assert (command.name, command.hidden) == (name, name != entry.names[0])


def test_names_are_unique() -> None:
    names = [name for entry in COMMANDS for name in entry.names]
    assert len(names) == len(set(names))


def test_help_has_a_section_for_each_panel_and_hides_aliases() -> None:
    text = Program(Api())("--help").stdout
    for panel in ("Commands:", "Operate:", "About:", "Options:", "Common options:"):
        assert f"\n{panel}\n" in text
    listed = {line.split()[0] for line in text.splitlines() if line.startswith("  ") and line.split()}
    assert {"submit", "cluster", "run", "completion"} <= listed
    assert not {"create", "ls", "rm", "why"} & listed


@pytest.mark.parametrize("words", [("stop",), ("rm",), ("cluster", "lock"), ("minicluster", "logs")])
def test_a_command_has_its_own_help(words: tuple[str, ...]) -> None:
    result = Program(Api())(*words, "--help")
    assert result.exit_code == 0
    assert "\nCommon options:\n" in result.stdout
    assert f"fournos {' '.join(words).replace('rm', 'delete')}" in result.stdout


def test_a_mistyped_command_is_answered_with_a_similar_one() -> None:
    result = Program(Api())("sumbit")
    assert result.exit_code == 2
    assert "No such command 'sumbit'. Did you mean 'submit'" in result.stderr
