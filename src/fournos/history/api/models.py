"""What the API sends and receives, beside the rows of `fournos.history.records`.  Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from fournos.history.records import WIRE, Interval, KeepMark, Run


@dataclass(frozen=True, slots=True)
class RunDetail:
    """A run with its waiting ledger."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE

    run: Run
    waits: tuple[Interval, ...] = ()
    """What it waited for between submission and run, oldest first, without gaps."""
    documents: dict[str, str] = field(default_factory=dict)
    """The path of each document of the run."""
    kept: KeepMark | None = None
    """None: the run may expire."""


@dataclass(frozen=True, slots=True)
class Keep:
    """A mark that keeps a run from expiring."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE

    reason: Annotated[str, Field(max_length=1024)] = ""
