"""The directories of the cache (built files, by version) and of the state (running clusters)."""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
"""The checkout from which this program runs."""

GO_SOURCES = Path(__file__).parent / "go"
"""The Go module of a cluster's programs. devcluster/versions.py lists the files that pin their versions."""


def cache_root() -> Path:
    """Returns `$FOURNOS_CACHE`, else `~/.cache/fournos`."""
    override = os.environ.get("FOURNOS_CACHE")
    return Path(override).resolve() if override else Path.home() / ".cache" / "fournos"


def state_root() -> Path:
    """Returns `$FOURNOS_STATE`, else `~/.local/state/fournos`; it contains `clusters`."""
    override = os.environ.get("FOURNOS_STATE")
    root = Path(override).resolve() if override else Path.home() / ".local" / "state" / "fournos"
    return root / "clusters"
