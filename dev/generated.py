"""Writes a generated page, or shows how the file differs from it."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path


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
