"""What requests and answers go through: checks, limits, headers, forms, notices, and files that are sent."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import aclosing, contextmanager
from typing import Any, Final, TypeVar, cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from aiohttp import web

from fournos.client.errors import FournosError
from fournos.engine.runtime.listening import RateLimit, cut
from fournos.insight.errors import KubeError
from fournos.web.errors import PageError
from fournos.web.site import Content

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


# --- limits ---------------------------------------------------------------------------------------


def take(limit: RateLimit, key: str) -> None:
    """Raises PageError 429 for a call beyond the limit."""
    if wait := limit.take(key):
        raise PageError(
            429,
            "Too many requests",
            "You send too many requests.",
            f"Try again in {wait} s.",
            headers={"Retry-After": str(wait)},
        )


# --- forms ----------------------------------------------------------------------------------------


FIELDS: Final = 1000
"""Maximum number of fields."""
SLOW: Final = 30.0
"""Seconds that a form may take to arrive."""
_FORM: Final = "application/x-www-form-urlencoded"


async def posted(request: web.Request) -> dict[str, str]:
    """Returns the fields; of several with one name the last.

    Forms of the page are in UTF-8 and have no files: other encodings are not read.  Raises PageError.
    """
    if request.content_type != _FORM:
        raise _no_form()
    try:
        async with asyncio.timeout(SLOW):
            body = await request.read()
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS))
    except TimeoutError:
        raise PageError(408, "Too slow", "The form did not arrive in time.", "Send it again.") from None
    except (ValueError, web.RequestPayloadError):
        raise _no_form() from None


def _no_form() -> PageError:
    return PageError(400, "Not understood", "This is not a form of the page.")


# --- notices --------------------------------------------------------------------------------------


COOKIE: Final = "fournos-notice"
_LONGEST: Final = 300
_SECONDS: Final = 30

R = TypeVar("R", bound=web.StreamResponse)


def with_notice(response: R, notice: str) -> R:
    """Adds the notice to a response that leads to another page."""
    response.set_cookie(
        COOKIE, quote(notice[:_LONGEST]), max_age=_SECONDS, httponly=True, samesite="Strict", path="/"
    )
    return response


def notice_of(request: web.Request) -> str:
    """Returns the notice for the page that is shown now, "" if there is none."""
    return unquote(request.cookies.get(COOKIE, ""))[:_LONGEST]


# --- downloads ------------------------------------------------------------------------------------


ALL: Final = 100
EACH: Final = 8
"""Downloads of one person at the same time."""
_SLOW: Final = 30.0
"""Seconds for which a reader may take nothing before its connection is closed."""
_BUSY: Final = {"Retry-After": "10"}
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Sending:
    """The files that are being sent."""

    def __init__(self, *, most: int = ALL) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    @contextmanager
    def counted(self, person: str) -> Iterator[None]:
        """Raises PageError if no further file may be sent."""
        if self._open.total() >= self._most or self._open[person] >= EACH:
            raise PageError(
                503,
                "Too many downloads",
                "As many files as allowed are being sent.",
                "Wait for the end of one.",
                headers=_BUSY,
            )
        self._open[person] += 1
        try:
            yield
        finally:
            self._open[person] -= 1

    async def send(self, request: web.Request, content: Content) -> web.StreamResponse:
        """Sends all pieces.  An error before the first one is raised."""
        async with aclosing(cast(Any, content.pieces)) as pieces:
            first: bytes = await anext(pieces, b"")
            response = web.StreamResponse(headers=_headers(content.filename))
            await response.prepare(request)
            try:
                await self._write(response, first)
                async for piece in pieces:
                    await self._write(response, piece)
                await response.write_eof()
            except ConnectionError:  # the reader has gone
                pass
            except (TimeoutError, KubeError, FournosError):
                cut(request)
        return response

    async def _write(self, response: web.StreamResponse, piece: bytes) -> None:
        async with asyncio.timeout(_SLOW):
            await response.write(piece)


def _headers(filename: str) -> dict[str, str]:
    exact = quote(filename, safe="")
    plain = _UNSAFE.sub("_", filename).strip("._") or "file"
    return {
        "Content-Type": "application/octet-stream",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}",
        "Cache-Control": "private, no-store",
        "X-Accel-Buffering": "no",
    }
