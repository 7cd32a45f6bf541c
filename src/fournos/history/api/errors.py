"""The errors of the API.  Each is written as a Kubernetes Status, which every client already understands."""

from __future__ import annotations

from typing import Any, ClassVar


class ApiError(Exception):
    """An error response: its HTTP status, its reason and a message for people."""

    status: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(self, message: str, *, name: str = "", retry_after: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.name = name
        self.retry_after = retry_after
        """Seconds; 0 for none."""

    def body(self) -> dict[str, Any]:
        """The Status object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.status,
        }
        if self.name:
            status["details"] = {"name": self.name}
        return status


class BadRequestError(ApiError):
    status = 400
    reason = "BadRequest"


class UnauthorizedError(ApiError):
    """The caller is not known."""

    status = 401
    reason = "Unauthorized"


class ForbiddenError(ApiError):
    """The caller is known and lacks the right."""

    status = 403
    reason = "Forbidden"


class NotFoundError(ApiError):
    status = 404
    reason = "NotFound"


class RequestTimeoutError(ApiError):
    status = 408
    reason = "Timeout"


class ConflictError(ApiError):
    status = 409
    reason = "Conflict"


class InvalidError(ApiError):
    """The request is understood, and its content is refused."""

    status = 422
    reason = "Invalid"


class TooManyRequestsError(ApiError):
    status = 429
    reason = "TooManyRequests"


class UnavailableError(ApiError):
    """The database or the API server does not answer."""

    status = 503
    reason = "ServiceUnavailable"


class InsufficientStorageError(ApiError):
    """The volume is almost full."""

    status = 507
    reason = "InsufficientStorage"
