"""The exceptions: a message for the user, a hint what to do next, and the evidence."""

from __future__ import annotations


class DevclusterError(Exception):
    """An expected failure; the command line prints it without a traceback.

    `hint` is what to do next. `evidence`, such as the last lines of a log, is printed below it.
    """

    def __init__(self, message: str, *, hint: str = "", evidence: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.evidence = evidence

    def __str__(self) -> str:
        parts = [self.message]
        if self.evidence:
            parts.append(self.evidence.rstrip())
        if self.hint:
            parts.append(self.hint)
        return "\n".join(parts)


class ComponentFailedError(DevclusterError):
    """A component of a cluster ended, or did not become ready in time. Its evidence is the end of the log."""

    def __init__(self, component: str, why: str, *, log_tail: str = "", hint: str = "") -> None:
        evidence = f"Last lines of its log:\n{log_tail.rstrip()}" if log_tail else ""
        super().__init__(f"{component}: {why}", hint=hint, evidence=evidence)
        self.component = component


class CommandFailedError(DevclusterError):
    """A program returned an error, is missing, or exceeded its time limit."""


class NotSupportedError(DevclusterError):
    """This machine or this provider does not support the operation."""
