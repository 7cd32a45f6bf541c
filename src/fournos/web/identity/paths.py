"""Which paths a login may lead to."""

from __future__ import annotations

from urllib.parse import urlsplit


def local_path(text: str) -> str:
    """Returns the path if it is one of this page, else "/": a login must not send a person elsewhere."""
    odd = not text.startswith("/") or text.startswith("//") or "\\" in text or not text.isprintable()
    try:
        parts = urlsplit(text)
    except ValueError:
        return "/"
    return "/" if odd or parts.scheme or parts.netloc or len(text) > 2000 else text
