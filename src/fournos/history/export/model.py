"""What an export of a run contains.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fournos.history.artifacts.rules import Artifact
from fournos.history.records import Interval, Run, api_row
from fournos.history.results.models import ResultRecord


@api_row
@dataclass(frozen=True, slots=True)
class ExportedLog:
    """The stored log of one container."""

    name: str
    """The task and the container."""
    text: str
    cut: str = ""
    """What is missing, for people; "" for a whole log."""


@api_row
@dataclass(frozen=True, slots=True)
class Export:
    """A run with all that belongs to it."""

    run: Run
    made_at: datetime
    waits: tuple[Interval, ...] = ()
    documents: Mapping[str, Any] = field(default_factory=dict)
    """By the names of `fournos.history.records.Document`; those that the run has."""
    results: tuple[ResultRecord, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    """Their names and sums; their content is not part of an export."""
    logs: tuple[ExportedLog, ...] = ()
