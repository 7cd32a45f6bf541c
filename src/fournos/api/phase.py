"""The phases of a FournosJob, in a module of their own so that they can be imported without the model."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    RESOLVING = "Resolving"
    PENDING = "Pending"
    ADMITTED = "Admitted"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPING = "Stopping"
    STOPPED = "Stopped"

    @property
    def terminal(self) -> bool:
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED)


TERMINAL = frozenset(phase.value for phase in Phase if phase.terminal)
HOLDING = frozenset(phase.value for phase in (Phase.ADMITTED, Phase.RUNNING, Phase.STOPPING))
"""The phases in which a job occupies its cluster."""
