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
WARNING_ANNOTATION: Final = "fournos.dev/queue-warning"
"""Why an object is not queued, for as long as that is so: "Reason: message"."""

ON_EVICTION_ANNOTATION: Final = "fournos.dev/on-eviction"
RECREATE: Final = "recreate"
ATTEMPT_ANNOTATION: Final = "fournos.dev/attempt"
FIRST_ATTEMPT_ANNOTATION: Final = "fournos.dev/first-attempt"
NEXT_ATTEMPT_ANNOTATION: Final = "fournos.dev/next-attempt"
"""The name of the next attempt; written before the attempt is created."""
NEXT_MADE_ANNOTATION: Final = "fournos.dev/next-attempt-made"
PREDECESSOR_LABEL: Final = "fournos.dev/attempt-after"
"""Label of an attempt: the UID of the previous one, so that it is created only once."""

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
NAME_MAX: Final = 63
"""The maximum length of an attempt's name: kinds use an object's name as a label value of its children."""
TEXT_MAX: Final = 512
