"""The headers of every response, and the checks of every request before its handler."""

from __future__ import annotations

from collections.abc import Set
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from fournos.web.errors import PageError

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
PRIVATE: Final = "private, no-cache"
"""Cache-Control of pages: a browser may keep them, but asks each time whether they are current."""


def check_host(request: web.Request, allowed: Set[str]) -> None:
    """Raises PageError for a host that is not ours: DNS rebinding.  `allowed` empty: any."""
    if allowed and request.host.lower() not in allowed:
        raise PageError(421, "Unknown host", "This server does not answer for that host name.")


def check_origin(request: web.Request) -> None:
    """Raises PageError for a write that another site's page sends."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        raise _foreign()
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc.lower() != request.host.lower():
        raise _foreign()


def _foreign() -> PageError:
    return PageError(403, "Refused", "The request comes from a page of another site.")
