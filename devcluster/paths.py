"""The directories of the cache (built files, by version) and of the state (running clusters)."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
"""The checkout from which this program runs."""

GO_SOURCES = Path(__file__).parent / "go"
"""The Go module whose go.mod pins every program of a cluster."""


def cache_root() -> Path:
    """Returns `$FOURNOS_CACHE`, else `~/.cache/fournos`."""
    override = os.environ.get("FOURNOS_CACHE")
    return Path(override).resolve() if override else Path.home() / ".cache" / "fournos"


def state_root() -> Path:
    """Returns `$FOURNOS_STATE`, else `~/.local/state/fournos`; it contains `clusters`."""
    override = os.environ.get("FOURNOS_STATE")
    root = Path(override).resolve() if override else Path.home() / ".local" / "state" / "fournos"
    return root / "clusters"


def sources_hash() -> str:
    """A hash that identifies the set of programs: it changes with each pinned version and own program."""
    digest = hashlib.sha256()
    files = ["go.mod", "go.sum", *sorted(str(p.relative_to(GO_SOURCES)) for p in GO_SOURCES.rglob("*.go"))]
    for name in files:
        digest.update(name.encode() + b"\0" + (GO_SOURCES / name).read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def versioned_cache() -> Path:
    """The cache directory with this version's `bin`, `images` and `manifests`."""
    return cache_root() / sources_hash()
