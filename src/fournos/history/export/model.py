"""What an export of a run contains.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from pydantic import ConfigDict

from fournos.history.artifacts.rules import Artifact
from fournos.history.records import WIRE, Interval, Run
from fournos.history.results.models import ResultRecord


@dataclass(frozen=True, slots=True)
class ExportedLog:
    """The stored log of one container."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE

    name: str
    """The task and the container."""
    text: str
    cut: str = ""
    """What is missing, for people; "" for a whole log."""


@dataclass(frozen=True, slots=True)
class Export:
    """A run with all that belongs to it."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE

    run: Run
    made_at: datetime
    waits: tuple[Interval, ...] = ()
    documents: Mapping[str, Any] = field(default_factory=dict)
    """By the names of `fournos.history.records.Document`; those that the run has."""
    results: tuple[ResultRecord, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    """Their names and sums; their content is not part of an export."""
    logs: tuple[ExportedLog, ...] = ()
