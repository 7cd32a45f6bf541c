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
HTTPS_ONLY: Final = {"Strict-Transport-Security": "max-age=31536000"}
PRIVATE: Final = "private, no-cache"
"""Cache-Control of pages: a browser may keep them, but revalidates them at each request."""


_READING: Final = ("GET", "HEAD", "OPTIONS")


def check_host(request: web.Request, allowed: Set[str]) -> None:
    """Raises PageError for a host that is not ours: DNS rebinding.  `allowed` empty: any."""
    if allowed and request.host.lower().removesuffix(":443") not in allowed:
        raise PageError(421, "Unknown host", "This server does not answer for that host name.")


def check_origin(request: web.Request, allowed: Set[str]) -> None:
    """Raises PageError for a write that another site's page sends, and for one that names no site.

    A proxy in front adds the person to whatever a browser sends.  `allowed`: the hosts of `check_host`; the
    proxy may have replaced the host of the request itself.
    """
    if request.method in _READING:
        return
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        if site not in ("same-origin", "none"):
            raise _foreign()
        return
    # Browsers that do not say it, such as over plain http, name the origin of every write.
    try:
        netloc = urlsplit(request.headers.get("Origin", "")).netloc.lower().removesuffix(":443")
    except ValueError:
        raise _foreign() from None
    if not netloc or netloc not in (allowed or {request.host.lower().removesuffix(":443")}):
        raise _foreign()


def _foreign() -> PageError:
    return PageError(403, "Refused", "The request comes from a page of another site.")
