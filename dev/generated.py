"""Writes generated files, or shows how the files differ from what would be written."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml


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
