"""Where a request comes from."""

from __future__ import annotations

import ipaddress

from aiohttp import web


def network_of(request: web.Request, proxies: int) -> str:
    """Returns the network of the client before so many proxies; each has added one to X-Forwarded-For.

    What a client itself wrote into the header stands before those, and does not count.
    """
    given = ",".join(request.headers.getall("X-Forwarded-For", []))
    found = [one.strip() for one in given.split(",") if one.strip()]
    return network(found[-proxies] if 0 < proxies <= len(found) else request.remote or "")


def network(address: str) -> str:
    """Returns the key by which limits count a client: its IPv4 address, or its IPv6 network (/64).

    One client has all addresses of a /64.  A text that is not an address is returned unchanged.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    return str(found.ipv4_mapped or ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))
