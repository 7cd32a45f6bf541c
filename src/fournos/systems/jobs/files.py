"""Locates the files that are distributed with Fournos (config/), independent of the working directory."""

from __future__ import annotations

from pathlib import Path

import fournos

_PACKAGE = Path(fournos.__file__).resolve().parent


def roots() -> tuple[Path, ...]:
    """Returns the directories in which a relative path of a setting is searched.

    They are the working directory, a checkout, and the installed data.
    """
    return (Path.cwd(), _PACKAGE.parents[1], _PACKAGE / "_data")
