"""Reads the manifests that a command gets as files, and applies `--set`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from fournos.cli.errors import Fail
from fournos.insight.manifests import assign, field_path, value_at


def read(path: str) -> str:
    """Returns the text of a file, or of stdin for "-".  Raises Fail."""
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Fail(
            f"cannot read {path}: {error.strerror}", fix="name a file of yours, or - for standard input"
        ) from None
    except UnicodeDecodeError:
        raise Fail(f"{path} is not text in UTF-8", fix="name a YAML or JSON file") from None


def put(manifest: dict[str, Any], given: str, *, text: bool = False) -> None:
    """Applies one assignment to the manifest.  Raises Fail."""
    path, value = assignment(given, text=text)
    assign(manifest, field_path(path), value, asked=f"--set {path}")


def assignment(given: str, *, text: bool = False) -> tuple[str, Any]:
    """Splits one `path=value` into path and value.

    The path is relative to spec unless it starts with spec or metadata; `\\.` is a dot within a name.  The
    value is parsed as YAML, so that 2, true and [a, b] have the types of the field; with `text` it stays a
    string.  An empty YAML value is null, which removes the field.  Raises Fail.
    """
    path, equals, value = given.partition("=")
    parts = field_path(path)
    if not equals or not parts:
        raise Fail(
            f"--set {given!r:.80} is not path=value",
            fix="write it like --set hardware.gpuCount=4 or --set env.OCPCI_SUITE=regression",
        )
    if len(parts) == 1:
        raise Fail(f"--set {path} names no field", fix=f"write the field too, like --set {path}.cluster=…")
    try:
        parsed = value if text else value_at(path, value)
    except ValueError as error:
        raise Fail(f"--set {path}: the value {error}", fix="use --set-string for a text") from None
    return path, parsed
