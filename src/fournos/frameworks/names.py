"""Labels, annotations and fixed words of the kinds that are queued by configuration."""

from __future__ import annotations

from typing import Final

HELD_ANNOTATION: Final = "fournos.dev/held"
HELD_BY_QUEUE: Final = "queue"
"""Whoever wrote the hold says so: only a hold with this annotation is the queue's to release, for kinds whose
users may hold an object themselves."""
STOPPED_ANNOTATION: Final = "fournos.dev/stopped"
"""Why the queue has stopped an object for good: "Reason: message"."""
WARNING_ANNOTATION: Final = "fournos.dev/queue-warning"
"""What keeps an object from being queued, as long as it does: "Reason: message"."""

ON_EVICTION_ANNOTATION: Final = "fournos.dev/on-eviction"
RECREATE: Final = "recreate"
ATTEMPT_ANNOTATION: Final = "fournos.dev/attempt"
FIRST_ATTEMPT_ANNOTATION: Final = "fournos.dev/first-attempt"
NEXT_ATTEMPT_ANNOTATION: Final = "fournos.dev/next-attempt"
"""The name of the attempt that follows; written before the attempt is made."""
NEXT_MADE_ANNOTATION: Final = "fournos.dev/next-attempt-made"
PREDECESSOR_LABEL: Final = "fournos.dev/attempt-after"
"""On an attempt: the UID of the one before, so that it is made once."""

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
NAME_MAX: Final = 63
"""Of an attempt: kinds put the name of an object into labels of what they make."""
TEXT_MAX: Final = 512
