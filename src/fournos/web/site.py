"""What all handlers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from fournos.insight.caches import ObjectCaches
from fournos.web.assets import Assets
from fournos.web.memo import Memo
from fournos.web.render import Renderer


@dataclass(frozen=True, slots=True)
class Site:
    """The parts of one running page server."""

    caches: ObjectCaches
    """The watched objects; `Viewer.source` is the part of them that a person may read."""
    now: Callable[[], datetime]
    jobs_namespace: str
    """Empty: all namespaces."""
    clusters_namespace: str
    assets: Assets
    renderer: Renderer
    memo: Memo = field(default_factory=Memo)
    """Cached answers that cost requests to make."""
