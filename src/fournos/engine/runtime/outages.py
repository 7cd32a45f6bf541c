"""Outages of the API server, as the results of passes and watches show them.  Pure.

Reads and writes recover apart: while a webhook of one kind is rolling out, writes of that kind fail, and
watches and other writes go on.  So a write outage ends with a write of the same target, and an outage of
reads with a watch that delivers again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fournos.engine.kube.errors import TransientError
from fournos.engine.runtime.reconcile import PassOutcome
from fournos.engine.runtime.steps import Step, written

OUTAGE: Final = 5
"""Number of transient failures in a row, of any keys, that counts as an outage of a target."""
STATUS: Final = "status"


class Outages:
    """The targets of writes that fail, and whether reads have failed."""

    def __init__(self) -> None:
        self._failures: dict[str, int] = {}
        """Target → transient failures in a row."""
        self._reads_failed = False

    def passed(
        self, outcome: PassOutcome, resource: str, *, reads_fail: Callable[[], bool]
    ) -> tuple[str, bool]:
        """Takes the result of a pass over an object of the resource.

        `reads_fail()` is called after a failure: whether a watch fails at that time.  Returns the target
        whose outage has begun ("" for none), and whether an outage has ended.
        """
        answered = [_target(step) for step, _ in outcome.done]
        if outcome.wrote_status:
            answered.append(f"{STATUS} of {resource}")
        failures = [self._failures.pop(target, 0) for target in answered]
        ended = any(count >= OUTAGE for count in failures)
        failing = ""
        if isinstance(outcome.error, TransientError):
            failing = f"{STATUS} of {resource}"
        elif outcome.failure is not None and outcome.failure.transient:
            failing = _target(outcome.failure.step)
        if not failing:
            return "", ended
        self._reads_failed = self._reads_failed or reads_fail()
        count = self._failures[failing] = self._failures.get(failing, 0) + 1
        return (failing if count == OUTAGE else ""), ended

    def read(self) -> bool:
        """Takes an event of a watch.  Returns whether an outage of reads has ended."""
        ended = self._reads_failed and any(count >= OUTAGE for count in self._failures.values())
        self._reads_failed = False
        if ended:
            self._failures.clear()
        return ended


def _target(step: Step) -> str:
    return f"{type(step).__name__} {written(step)}".rstrip()
