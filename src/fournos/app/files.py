"""Where the files that ship with Fournos (config/) are, whatever the working directory."""

from __future__ import annotations

from pathlib import Path

import fournos

_PACKAGE = Path(fournos.__file__).resolve().parent


def roots() -> tuple[Path, ...]:
    """Directories that a relative path of a setting is looked up in: here, a checkout, the installed data."""
    return (Path.cwd(), _PACKAGE.parents[1], _PACKAGE / "_data")
