"""The fields of a form that was sent."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import web

from fournos.web.errors import PageError

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
