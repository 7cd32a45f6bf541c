"""From an API server's answer, or a watch's ERROR event, to a typed error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from fournos.kube.errors import (
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
from fournos.kube.resource import Obj

_MAX_MESSAGE = 2000
LONGEST_WAIT = 60.0
"""Seconds.  A longer Retry-After is cut to it: whoever asks for an hour must not blind a watch for one."""
_NO_SUCH_PATH = b"404 page not found"
"""The one refusal that an API server writes in plain text: an unknown group, version or plural."""


def error_from(status: int, body: bytes, *, retry_after: str | None = None) -> KubeError:
    """The error that an answer of 300 or above stands for; `retry_after` is its header.

    Whatever is no Status comes from something between us and the API server, which has not judged the
    request: another try may succeed.
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
    """The error that a Status object stands for (the object of an ERROR event)."""
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
        # An unknown group, version or plural is answered in plain text or with no name in the details.
        kind = NotFoundError if details.get("name") else NoSuchResourceError
    elif status == 409:
        kind = AlreadyExistsError if reason == "AlreadyExists" else ConflictError
    elif status == 410:
        kind = GoneError
    elif status == 403 and "admission webhook" in message and "denied the request" in message:
        kind = InvalidError  # webhooks refuse content with 403; no right is lacking
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
    """Retry-After in seconds, `LONGEST_WAIT` at most; API servers never send the date form."""
    try:
        seconds = float(str(value)[:20])
    except ValueError:
        return None
    return min(seconds, LONGEST_WAIT) if seconds > 0 else None
