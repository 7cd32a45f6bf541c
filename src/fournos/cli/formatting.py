"""The colours of phases."""

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
}


def phase_text(phase: str) -> Text:
    return Text(phase, style=phase_style(phase))


def phase_style(phase: str) -> str:
    return _STYLES.get(phase, "dim")
