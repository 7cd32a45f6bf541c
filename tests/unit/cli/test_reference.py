"""The reference page and the guide speak of the program as it is."""

from __future__ import annotations

import re
from pathlib import Path

from dev.cli_reference import page
from fournos.cli.errors import Exit

ROOT = Path(__file__).parents[3]


def test_every_command_and_exit_code_is_on_it() -> None:
    text = page()
    for command in ("submit", "list", "get", "explain", "watch", "wait", "logs", "stop", "delete", "run"):
        assert f"## fournos {command}" in text
    for code in Exit:
        assert f"| `{code.value}` |" in text


def test_the_guide_names_commands_that_exist() -> None:
    known = set(re.findall(r"fournos ([a-z]+)", page()))
    named = set(re.findall(r"^ +(?:\$ )?fournos ([a-z]+)", (ROOT / "docs/cli.md").read_text(), re.MULTILINE))
    assert named
    assert named <= known
