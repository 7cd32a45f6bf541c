"""The fields of a form that was sent."""

from __future__ import annotations

from aiohttp import web

from fournos.web.errors import PageError


async def posted(request: web.Request) -> dict[str, str]:
    """Returns the fields; of several with one name the last.  Raises PageError for what is no form."""
    try:
        found = await request.post()
    except ValueError:
        raise PageError(400, "Not understood", "This is no form of the page.") from None
    return {name: str(value) for name, value in found.items()}
