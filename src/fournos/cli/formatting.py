"""The colours of phases."""

from __future__ import annotations

from typing import Final

from rich.text import Text

STYLES: Final = {
    "Resolving": "cyan",
    "Pending": "yellow",
    "Admitted": "blue",
    "Running": "bold blue",
    "Succeeded": "green",
    "Failed": "bold red",
    "Stopping": "magenta",
    "Stopped": "magenta",
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
    return Text(phase, style=STYLES.get(phase, "dim"))
