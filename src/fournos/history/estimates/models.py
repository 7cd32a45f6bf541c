"""What the API of estimates sends and receives.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fournos.history.estimates.accuracy import Accuracy
from fournos.history.estimates.simulate import Estimate
from fournos.history.records import api_row
from fournos.insight.source import DEFAULT_QUEUE


@api_row
@dataclass(frozen=True, slots=True)
class JobEstimate:
    """The estimate of one queued object."""

    kind: str
    name: str
    namespace: str
    uid: str
    position: int
    """In its queue, from 1; 0 for one that holds its quota."""
    estimate: Estimate


@api_row
@dataclass(frozen=True, slots=True)
class Estimates:
    """The estimates of jobs, and how good the stored ones of their namespace were."""

    jobs: tuple[JobEstimate, ...]
    """By queue and position."""
    accuracy: tuple[Accuracy, ...] = ()
    """Of starts and of ends; one without enough stored predictions that have come true is left out."""


@api_row
@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that is not submitted yet."""

    spec: dict[str, Any]
    """The spec of a FournosJob."""
    queue: str = DEFAULT_QUEUE
    """The LocalQueue that it would wait in."""
