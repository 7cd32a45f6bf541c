"""The reference page and the guide speak of the program as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fournos.cli import reference
from fournos.cli.exits import Exit

ROOT = Path(__file__).parents[3]


def test_the_page_is_current() -> None:
    assert reference.main(["--check", "--root", str(ROOT)]) == 0


def test_a_page_that_differs_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.main(["--check", "--root", str(tmp_path)]) == 1
    assert "+# The command `fournos`" in capsys.readouterr().out
    assert reference.main(["--write", "--root", str(tmp_path)]) == 0
    assert reference.main(["--check", "--root", str(tmp_path)]) == 0


def test_every_command_and_exit_code_is_on_it() -> None:
    page = reference.page()
    for command in ("submit", "list", "get", "explain", "watch", "wait", "logs", "stop", "delete", "run"):
        assert f"## fournos {command}" in page
    for code in Exit:
        assert f"| `{code.value}` |" in page


def test_the_guide_names_commands_that_exist() -> None:
    known = set(re.findall(r"fournos ([a-z]+)", reference.page()))
    named = set(re.findall(r"^ +(?:\$ )?fournos ([a-z]+)", (ROOT / "docs/cli.md").read_text(), re.MULTILINE))
    assert named
    assert named <= known
