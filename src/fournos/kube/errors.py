"""What can go wrong between us and an API server.

KubeError
├── TransientError          worth another try, never a user's fault
│   ├── ServerError         5xx, or 429 with `retry_after`
│   ├── ConnectionLostError      no answer of an API server's: refused, reset, timed out, a proxy's page;
│   │                            the write may have happened
│   └── ConflictError       409 Conflict: our resourceVersion is stale
├── NotFoundError           404 for an object
├── NoSuchResourceError     404 for the resource type: its CRD is not installed
├── AlreadyExistsError      409 AlreadyExists
├── GoneError               410: the resourceVersion is too old, list again
├── ForbiddenError          401 or 403
├── InvalidError            400, 413 or 422: the API server refused the content
└── NotLeaderError          the write was fenced: this process no longer holds the lease
"""

from __future__ import annotations


class KubeError(Exception):
    """Base of all; `status` is the HTTP code (0 if there was no answer), `reason` the Status reason."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason


class TransientError(KubeError):
    """Another try may succeed."""


class ServerError(TransientError):
    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after = retry_after


class ConnectionLostError(TransientError):
    """No answer of an API server arrived; whether a write took place is unknown."""


class TooLongError(ConnectionLostError):
    """The answer is longer, or takes more memory, than this connection may give us."""


class ConflictError(TransientError):
    """The object changed since it was read."""


class NotFoundError(KubeError):
    """No such object."""


class NoSuchResourceError(KubeError):
    """The API server does not serve this resource type."""


class AlreadyExistsError(KubeError):
    """An object of this name is there already."""


class GoneError(KubeError):
    """The resourceVersion is no longer served; list again."""


class ForbiddenError(KubeError):
    """Credentials missing, expired or without the right."""


class CredentialsError(ForbiddenError):
    """No usable credentials; the message says what to change."""


class InvalidError(KubeError):
    """The API server refused the content; the message names the fields."""


class NotLeaderError(KubeError):
    """This process may not write any more."""
