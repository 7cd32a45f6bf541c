"""Where a request comes from."""

from __future__ import annotations

from aiohttp import web


def address_of(request: web.Request, proxies: int) -> str:
    """Returns the address of the client before so many proxies; each has added one to X-Forwarded-For.

    What a client itself wrote into the header stands before those, and does not count.
    """
    given = ",".join(request.headers.getall("X-Forwarded-For", []))
    found = [one.strip() for one in given.split(",") if one.strip()]
    if 0 < proxies <= len(found):
        return found[-proxies]
    return request.remote or ""
