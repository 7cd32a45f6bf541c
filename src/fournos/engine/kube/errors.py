"""The errors of requests to an API server.

KubeError
├── TransientError          another try may succeed; never caused by a user's input
│   ├── ServerError         5xx, or 429 with `retry_after`
│   ├── ConnectionLostError      no response of an API server: refused, reset, timed out, a proxy's page;
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
    """The base of all errors; `status` is the HTTP code (0: no response), `reason` that of the Status."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason


class TransientError(KubeError):
    """Another try may succeed."""


class ServerError(TransientError):
    """The API server failed or is overloaded; `retry_after` is its Retry-After in seconds, if any."""

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after = retry_after


class ConnectionLostError(TransientError):
    """No response of an API server arrived; it is unknown whether a write took place."""


class TooLongError(ConnectionLostError):
    """The response is longer, or would take more memory, than this client accepts."""


class ConflictError(TransientError):
    """The object changed since it was read."""


class NotFoundError(KubeError):
    """No such object."""


class NoSuchResourceError(KubeError):
    """The API server does not serve this resource type."""


class AlreadyExistsError(KubeError):
    """An object with this name already exists."""


class GoneError(KubeError):
    """The resourceVersion is no longer served; list again."""


class ForbiddenError(KubeError):
    """The credentials are missing, expired or lack the right."""


class CredentialsError(ForbiddenError):
    """There are no usable credentials; the message contains the fix."""


class InvalidError(KubeError):
    """The API server refused the content; the message names the fields."""


class NotLeaderError(KubeError):
    """This process is no longer the leader and must not write."""
