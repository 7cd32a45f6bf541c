"""The colours of phases, and what is said of a watch."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from fournos.api.phase import Phase

_STYLES: Final = {
    **{phase.value: phase.traits.style for phase in Phase},
    # of AppWrappers
    "Suspended": "yellow",
    "Resuming": "blue",
    "Resetting": "magenta",
    "Suspending": "magenta",
    "Terminating": "magenta",
    # of MiniClusters
    "Waiting": "yellow",
    "Ready": "green",
    "Finished": "dim",
    # of schedules; Suspended as of AppWrappers
    "Invalid": "bold red",
    "Overlapping": "magenta",
    "Active": "blue",
}


def phase_text(phase: str) -> Text:
    return Text(phase, style=phase_style(phase))


def connection_text(error: Exception | None) -> str:
    """What is said when a watch breaks, and when it works again: None."""
    return f"connection lost, trying again: {error}" if error else "connected again"


def phase_style(phase: str) -> str:
    return _STYLES.get(phase, "dim")
