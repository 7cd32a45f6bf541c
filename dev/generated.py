"""Writes generated files, or shows how the files differ from what would be written."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path


def differences(files: Mapping[str, str], folder: Path) -> list[str]:
    """Returns the lines in which the files of the folder differ from these."""
    lines: list[str] = []
    for name, text in sorted(files.items()):
        path = folder / name
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        lines += difflib.unified_diff(
            there.splitlines(), text.splitlines(), str(path), "generated", lineterm=""
        )
    return lines


def write(files: Mapping[str, str], folder: Path) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
