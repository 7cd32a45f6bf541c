"""Where things are kept: what is built (a cache, by version) and what runs (the state of clusters)."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
"""What this program was started from."""

GO_SOURCES = Path(__file__).parent / "go"
"""The Go module whose go.mod pins every program of a cluster."""


def cache_root() -> Path:
    """`$FOURNOS_CACHE`, else `~/.cache/fournos`."""
    override = os.environ.get("FOURNOS_CACHE")
    return Path(override).resolve() if override else Path.home() / ".cache" / "fournos"


def state_root() -> Path:
    """`$FOURNOS_STATE`, else `~/.local/state/fournos`, with `clusters` below it."""
    override = os.environ.get("FOURNOS_STATE")
    root = Path(override).resolve() if override else Path.home() / ".local" / "state" / "fournos"
    return root / "clusters"


def sources_hash() -> str:
    """Names the set of programs: changes whenever a pinned version or a program of ours changes."""
    digest = hashlib.sha256()
    files = ["go.mod", "go.sum", *sorted(str(p.relative_to(GO_SOURCES)) for p in GO_SOURCES.rglob("*.go"))]
    for name in files:
        digest.update(name.encode() + b"\0" + (GO_SOURCES / name).read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def versioned_cache() -> Path:
    """The directory of this version's `bin`, `images` and `manifests`."""
    return cache_root() / sources_hash()
