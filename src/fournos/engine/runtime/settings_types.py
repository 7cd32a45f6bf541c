"""Types and checks of settings that several parts have."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

LogLevel = Annotated[
    Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], Field(description="Logging level")
]
Seconds = Annotated[float, Field(gt=0)]
"""A duration, more than 0."""


def with_placeholder(pattern: str, name: str, *, example: str = "prefix") -> str:
    """Returns the pattern of a name unchanged.  Raises ValueError if it does not contain `{name}` once."""
    if pattern.count(f"{{{name}}}") != 1:
        raise ValueError(f"must contain {{{name}}} exactly once, like '{example}-{{{name}}}'")
    return pattern
