"""Labels, annotations and constants of the kinds that are queued by configuration."""

from __future__ import annotations

from typing import Final

HELD_ANNOTATION: Final = "fournos.dev/held"
HELD_BY_QUEUE: Final = "queue"
"""The value of the annotation for a hold that the queue has set.

For kinds whose users may hold an object themselves, the queue releases only a hold with this annotation.
"""
STOPPED_ANNOTATION: Final = "fournos.dev/stopped"
"""Why the queue has ended an object for good: "Reason: message"."""
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
TEXT_MAX: Final = 512
