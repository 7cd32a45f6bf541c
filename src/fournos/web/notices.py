"""The sentence that a page shows once, after an action: in a cookie that the next page takes."""

from __future__ import annotations

from typing import Final, TypeVar
from urllib.parse import quote, unquote

from aiohttp import web

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
