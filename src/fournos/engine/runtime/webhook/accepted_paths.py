"""The unguessable first segment of each webhook's path.

Only a caller that has it from the API server's configuration may use a webhook; others could learn from the
answers what a user may create.  The segment is derived from the certificate's key, so every replica that
reads the Secret has it, and it changes with the certificate.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Final

from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.webhook.certificates import Pair
from fournos.engine.runtime.webhook.types import Webhook

_LENGTH: Final = 64
PATTERN: Final = f"[0-9a-f]{{{_LENGTH}}}"
"""Hexadecimal, because the API server accepts only lower case DNS names as segments of a Service's path."""
_LINGER: Final = 600.0
"""Seconds for which an old segment is still accepted, since API servers receive the next one by watch."""


def segment_of(pair: Pair) -> str:
    """Returns the path segment for a certificate: an HMAC with the certificate's key."""
    return hmac.digest(pair.key, b"fournos webhook path", sha256).hex()


def segments_in(existing: Obj, webhooks: Iterable[Webhook]) -> frozenset[str]:
    """Returns the segments that the API server uses now, from a configuration; "" for a path without."""
    paths = {webhook.name: webhook.path for webhook in webhooks}
    segments = set()
    for entry in existing.get("webhooks") or ():
        config = entry.get("clientConfig") or {}
        path = str((config.get("service") or {}).get("path") or config.get("url") or "")
        own = paths.get(entry.get("name"))
        if own is not None and path.endswith(own):
            segment = path.removesuffix(own).rpartition("/")[2]
            segments.add(segment if len(segment) == _LENGTH else "")
    return frozenset(segments)


class AcceptedPaths:
    """The path segments that are accepted now."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._open: dict[str, float | None] = {}
        """By segment: the time until which it is accepted; None: no end is known."""

    def expect(self, segments: Iterable[str]) -> None:
        """Accepts these segments from now on; earlier ones remain accepted for `_LINGER` seconds."""
        now, expected = self._monotonic(), frozenset(segments)
        for segment, until in tuple(self._open.items()):
            if segment in expected:
                continue
            if until is None:
                self._open[segment] = now + _LINGER
            elif until <= now:
                del self._open[segment]
        self._open |= dict.fromkeys(expected)

    def accepts(self, segment: str) -> bool:
        """True if the segment is accepted.  Takes the same time for every segment (no timing attack)."""
        now, accepted = self._monotonic(), False
        for known, until in self._open.items():
            same = hmac.compare_digest(known.encode(), segment.encode())
            accepted |= same and (until is None or until > now)
        return accepted
