"""What the API sends and receives, beside the rows of `fournos.history.records`.  Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from fournos.history.records import Interval, KeepMark, Run, api_row


@api_row
@dataclass(frozen=True, slots=True)
class RunDetail:
    """A run with its waiting ledger."""

    run: Run
    waits: tuple[Interval, ...] = ()
    """What it waited for between submission and run, oldest first, without gaps."""
    documents: dict[str, str] = field(default_factory=dict)
    """The path of each document of the run."""
    kept: KeepMark | None = None
    """None: the run may expire."""


@api_row
@dataclass(frozen=True, slots=True)
class Keep:
    """A mark that keeps a run from expiring."""

    reason: Annotated[str, Field(max_length=1024)] = ""
