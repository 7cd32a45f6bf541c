"""The result of one check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from fournos.engine.kube.errors import ForbiddenError, KubeError


class Level(StrEnum):
    OK = "ok"
    UNKNOWN = "unknown"
    """It could not be read.  It may be as it must be."""
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """What was found about one thing.  A warning or a fault has a fix."""

    area: str
    """Versions, CRDs, Kueue, Queues, Rights, Webhooks, Operator, Clocks, History or Vault."""
    what: str
    level: Level
    text: str = ""
    fix: str = ""

    def as_data(self) -> dict[str, Any]:
        return {**asdict(self), "level": self.level.value}


def faults(findings: Iterable[DoctorFinding]) -> int:
    return sum(one.level is Level.FAULT for one in findings)


def unreadable(area: str, what: str, error: KubeError) -> DoctorFinding:
    """Returns the finding for an object that could not be read."""
    text = "you may not read it" if isinstance(error, ForbiddenError) else error.message
    return DoctorFinding(area, what, Level.UNKNOWN, text)
