"""Dotted paths into objects ("spec.taskRunTemplate.podTemplate"), as in settings."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator

_PATH: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*")


def checked_path(text: str) -> str:
    """Returns the path unchanged.  Raises ValueError if it is not valid."""
    if not _PATH.fullmatch(text):
        raise ValueError(f"{text!r} is no path: write field names with dots between them, as spec.suspend")
    return text


Path = Annotated[str, AfterValidator(checked_path)]
