"""Warnings about an object that is not queued as its owner expects.

A warning is recorded once as an event, and remains as an annotation on the object while its cause exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from fournos.engine.runtime.decision import Decision, EventRecord
from fournos.systems.frameworks import names
from fournos.systems.frameworks.context import Context
from fournos.systems.frameworks.kind_spec import Framework


@dataclass(frozen=True, slots=True)
class QueueWarning:
    """The reason and message of a warning, and the type of its event."""

    reason: str
    message: str
    type: Literal["Normal", "Warning"] = "Warning"

    @property
    def text(self) -> str:
        return f"{self.reason}: {self.message}"[: names.TEXT_MAX]


HELD_BY_USER: Final = QueueWarning(
    "HeldByUser",
    "It was created on hold by its user, who alone lets it go; "
    f"annotate it with {names.HELD_ANNOTATION}={names.HELD_BY_QUEUE} to leave that to the queue",
    "Normal",
)
CANNOT_BE_HELD: Final = QueueWarning(
    "CannotBeHeld",
    "It names a queue but was not on hold when it was created, so it runs without quota: "
    "turn the admission webhook on, or create it on hold with the annotation "
    f"{names.HELD_ANNOTATION}={names.HELD_BY_QUEUE}",
)


def queued_twice(framework: Framework) -> QueueWarning:
    """Returns the warning that Kueue's pod integration also queues the pods.

    Kueue follows the owners of a pod only through configured kinds, so all
    intermediate kinds must be listed.
    """
    kinds = ", ".join((framework.name, *framework.between))
    return QueueWarning(
        "PodsQueuedTwice",
        "Kueue's pod integration queues its pods, too, and they need quota a second time: "
        f"list {kinds} under integrations.externalFrameworks of Kueue's configuration",
    )


def set_warning(ctx: Context, warning: QueueWarning | None) -> Decision:
    """Sets or removes the warning annotation, with an event when a warning begins.

    Returns a decision without steps while the warning is unchanged.  None removes the annotation.
    """
    before = ctx.annotations.get(names.WARNING_ANNOTATION)
    text = warning.text if warning is not None else None
    if before == text:
        return Decision()
    events = (EventRecord(warning.type, warning.reason, warning.message),) if warning is not None else ()
    return Decision(steps=(ctx.annotate({names.WARNING_ANNOTATION: text}),), events=events)
