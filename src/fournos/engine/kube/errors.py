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

from collections.abc import Mapping
from typing import Any

import orjson

from fournos.engine.kube.resource import Obj


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


class TimedOutError(ConnectionLostError):
    """The response did not arrive in time."""


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


# --- from an API server's answers -------------------------------------------------------------------
# Typed errors from an API server's response or from a watch's ERROR event.

_MAX_MESSAGE = 2000
LONGEST_WAIT = 60.0
"""Maximum seconds of a Retry-After; a longer one is cut, because it would stop a watch for that time."""
_NO_SUCH_PATH = b"404 page not found"
"""The one error that an API server sends as plain text: an unknown group, version or plural."""


def error_from(status: int, body: bytes, *, retry_after: str | None = None) -> KubeError:
    """Returns the error for a response of 300 or above; `retry_after` is its header.

    A response that is not a Status comes from a proxy between us and the API server.  The API server has not
    judged the request, so another try may succeed.
    """
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = None
    if isinstance(parsed, Mapping) and parsed.get("kind") == "Status" and status >= 400:
        return error_of(parsed, status_code=status, retry_after=retry_after)
    text = body[: 4 * _MAX_MESSAGE].decode(errors="replace").strip()[:_MAX_MESSAGE] or f"HTTP {status}"
    if status in (401, 403, 408, 429) or status >= 500 or body.strip() == _NO_SUCH_PATH:
        return _typed(status, "", text, {}, retry_after)
    return ConnectionLostError(
        f"the answer {status} is not an API server's: {text}"[:_MAX_MESSAGE], status=status
    )


def error_of(status: Obj, *, status_code: int = 0, retry_after: str | None = None) -> KubeError:
    """Returns the error for a Status object (the object of an ERROR event)."""
    own = status.get("code")
    code = status_code or (own if isinstance(own, int) and own else 500)
    message = str(status.get("message") or status.get("reason") or f"HTTP {code}")
    details = status.get("details")
    if not isinstance(details, Mapping):
        details = {}
    return _typed(code, str(status.get("reason") or ""), message, details, retry_after)


def _typed(
    status: int, reason: str, message: str, details: Mapping[str, Any], retry_after: str | None
) -> KubeError:
    message = message[:_MAX_MESSAGE]
    kind: type[KubeError]
    if status == 404:
        # An unknown group, version or plural gets plain text or a Status without a name in its details.
        kind = NotFoundError if details.get("name") else NoSuchResourceError
    elif status == 409:
        kind = AlreadyExistsError if reason == "AlreadyExists" else ConflictError
    elif status == 410:
        kind = GoneError
    elif status == 403 and "admission webhook" in message and "denied the request" in message:
        kind = InvalidError  # webhooks refuse content with 403, although no right is missing
    elif status in (401, 403):
        kind = ForbiddenError
    elif status in (408, 429) or status >= 500:
        wait = _seconds(retry_after)
        if wait is None:
            wait = _seconds(details.get("retryAfterSeconds"))
        return ServerError(message, status=status, reason=reason, retry_after=wait)
    else:
        kind = InvalidError
    return kind(message, status=status, reason=reason)


def _seconds(value: object) -> float | None:
    """Returns Retry-After in seconds, at most `LONGEST_WAIT`; API servers never send the date form."""
    try:
        seconds = float(str(value)[:20])
    except ValueError:
        return None
    return min(seconds, LONGEST_WAIT) if seconds > 0 else None
