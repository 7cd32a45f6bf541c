"""Writes generated files, or shows how the files differ from what would be written."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml


def write_or_check(
    module: str, what: str, page: str, text: str, arguments: Sequence[str] | None = None
) -> int:
    """Writes `text` to `page`, a path in the repository.

    With --check it writes nothing, prints a diff and returns 1 if there is one.
    `module` and `what` are for --help.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=what)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and show what differs")
    parser.add_argument("--root", type=Path, default=Path.cwd(), help="the repository (default: here)")
    options = parser.parse_args(arguments)
    path = options.root / page
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if not options.check:
        path.write_text(text, encoding="utf-8")
        return 0
    sys.stdout.writelines(
        difflib.unified_diff(
            before.splitlines(keepends=True), text.splitlines(keepends=True), page, f"{page} (generated)"
        )
    )
    return int(before != text)


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


def yaml_text(document: Mapping[str, Any]) -> str:
    """Returns the document with texts of several lines as they are, and without references."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Readers of manifests know no references, and annotations hold YAML and JSON."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _as_block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _as_block)
