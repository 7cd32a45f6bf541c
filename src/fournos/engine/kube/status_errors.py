"""Typed errors from an API server's response or from a watch's ERROR event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from fournos.engine.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ConnectionLostError,
    ForbiddenError,
    GoneError,
    InvalidError,
    KubeError,
    NoSuchResourceError,
    NotFoundError,
    ServerError,
)
from fournos.engine.kube.resource import Obj

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
