"""What cannot be done, and what to do about it: the base of all errors that programs and people meet."""

from __future__ import annotations

from collections.abc import Sequence

from fournos.api.rules import Violation


class FournosError(Exception):
    """`message` is what is wrong, `fix` what to do about it ("" where nothing can be done)."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message, fix)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message}\n  Fix: {self.fix}" if self.fix else self.message


class ManifestError(FournosError):
    """A manifest, or a change of one, that makes no job; `violations` names the fields that are wrong."""

    def __init__(self, message: str, *, fix: str = "", violations: Sequence[Violation] = ()) -> None:
        super().__init__(message, fix=fix)
        self.violations = tuple(violations)


class NoLogError(FournosError):
    """There is no log of what was asked for."""


class MissingError(FournosError):
    """No object of this name, or it is gone."""
