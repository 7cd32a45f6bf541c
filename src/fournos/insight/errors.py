"""The base classes of all errors that the client library and the command line raise."""

from __future__ import annotations

from collections.abc import Sequence

from fournos.engine.api.rules import Violation as Violation
from fournos.engine.kube.errors import ForbiddenError as ForbiddenError
from fournos.engine.kube.errors import KubeError as KubeError
from fournos.engine.kube.errors import NoSuchResourceError as NoSuchResourceError
from fournos.engine.kube.errors import NotFoundError as NotFoundError


class FournosError(Exception):
    """An error for the user.  `message` is the problem, `fix` is what to do ("" if nothing can be done)."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message, fix)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message}\n  Fix: {self.fix}" if self.fix else self.message


class ManifestError(FournosError):
    """A manifest, or a change of a manifest, is invalid.  `violations` names the invalid fields."""

    def __init__(self, message: str, *, fix: str = "", violations: Sequence[Violation] = ()) -> None:
        super().__init__(message, fix=fix)
        self.violations = tuple(violations)


def refusal(what: str, violations: Sequence[Violation], *, fix: str) -> ManifestError:
    """Returns the error for a manifest with violations; the message lists each field."""
    lines = "".join(f"\n  {violation}" for violation in violations)
    return ManifestError(f"{what} would be refused:{lines}", fix=fix, violations=violations)


class EndedError(FournosError):
    """The operation, or what was waited for, is no longer possible: the object has ended."""


class RightsError(FournosError):
    """The caller, or an identity that it uses, lacks a right."""


class NoLogError(FournosError):
    """No log exists for the request."""


class MissingError(FournosError):
    """No object has this name, or the object was deleted."""
