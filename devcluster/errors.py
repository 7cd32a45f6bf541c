"""What can go wrong, said for people: a sentence, the evidence, and what to do next."""

from __future__ import annotations


class DevclusterError(Exception):
    """A failure that its message explains; the command line prints it without a traceback.

    `hint` says what to do next, `evidence` is shown below it (the last lines of a log).
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
    """A component of a cluster ended, or did not become ready in time; carries the tail of its log."""

    def __init__(self, component: str, why: str, *, log_tail: str = "", hint: str = "") -> None:
        evidence = f"Last lines of its log:\n{log_tail.rstrip()}" if log_tail else ""
        super().__init__(f"{component}: {why}", hint=hint, evidence=evidence)
        self.component = component


class CommandFailedError(DevclusterError):
    """A program that was run returned an error or took longer than its limit."""


class NotSupportedError(DevclusterError):
    """This machine or this provider cannot do what was asked."""
