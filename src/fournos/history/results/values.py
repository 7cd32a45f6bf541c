"""The single values that runs measured, with what they can be grouped by.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fournos.history.records import Run, api_row


@api_row
@dataclass(frozen=True, slots=True)
class MeasuredValue:
    """A single value of a test."""

    kpi_id: str
    value: float
    unit: str = ""
    higher_is_better: bool | None = None
    """None: not stated."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The configuration of the test, those that name a version included."""
    success: bool = True
    """Whether the test succeeded."""


@api_row
@dataclass(frozen=True, slots=True)
class RunValues:
    """What the last attempt of a run measured."""

    run: Run
    values: tuple[MeasuredValue, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The fields of its object that were asked for, by their paths; None for one that it does not have."""


@api_row
@dataclass(frozen=True, slots=True)
class ValuePage:
    """One page of runs with their values, newest submission first.  As `fournos.history.records.Page`."""

    runs: tuple[RunValues, ...] = ()
    cursor: str = ""
