"""The unguessable segment that begins each webhook's path: only whom the API server's configuration tells it
may ask what a user may create.

It comes of the certificate's key, so every replica that reads the Secret knows it, and it turns with the
certificate.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Final

from fournos.kube.resource import Obj
from fournos.runtime.webhook.certificates import Pair
from fournos.runtime.webhook.types import Webhook

_LENGTH: Final = 64
PATTERN: Final = f"[0-9a-f]{{{_LENGTH}}}"
"""Hexadecimal: the API server takes only lower case DNS names as segments of a Service's path."""
_LINGER: Final = 600.0
"""Seconds for which a segment counts that is no longer in use: API servers learn of the next one by watch."""


def segment_of(pair: Pair) -> str:
    return hmac.digest(pair.key, b"fournos webhook path", sha256).hex()


def segments_in(existing: Obj, webhooks: Iterable[Webhook]) -> frozenset[str]:
    """What the API server uses now, as a configuration of ours has it; "" where there is none yet."""
    paths = {webhook.name: webhook.path for webhook in webhooks}
    found = set()
    for entry in existing.get("webhooks") or ():
        config = entry.get("clientConfig") or {}
        path = str((config.get("service") or {}).get("path") or config.get("url") or "")
        own = paths.get(entry.get("name"))
        if own is not None and path.endswith(own):
            segment = path.removesuffix(own).rpartition("/")[2]
            found.add(segment if len(segment) == _LENGTH else "")
    return frozenset(found)


class Doors:
    """Which segments are let in."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._open: dict[str, float | None] = {}
        """Until when; None: no end is known."""

    def expect(self, segments: Iterable[str]) -> None:
        """From now on these; what was expected before for a while."""
        now, wanted = self._monotonic(), frozenset(segments)
        for segment, until in tuple(self._open.items()):
            if segment in wanted:
                continue
            if until is None:
                self._open[segment] = now + _LINGER
            elif until <= now:
                del self._open[segment]
        self._open |= dict.fromkeys(wanted)

    def lets_in(self, segment: str) -> bool:
        """In the same time whatever the segment."""
        now, found = self._monotonic(), False
        for known, until in self._open.items():
            same = hmac.compare_digest(known.encode(), segment.encode())
            found |= same and (until is None or until > now)
        return found
