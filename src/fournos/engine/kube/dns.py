"""Name resolution in threads of its own, so that one unreachable name server cannot block the others.

The event loop resolves names in a small thread pool.  A name server that drops packets blocks one of its
threads for half a minute.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

_Key: TypeAlias = tuple[str, int, int]
_Answer: TypeAlias = list[ResolveResult] | OSError


class LoneResolver(AbstractResolver):
    """A resolver for the connections to one server, with at most one thread per name and none when idle."""

    def __init__(self) -> None:
        self._lookups: dict[_Key, asyncio.Future[_Answer]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Returns the addresses.  Raises OSError.

        If a caller is cancelled, the lookup continues, and later callers share it.
        """
        key = (host, port, int(family))
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = asyncio.get_running_loop().create_future()
            # A daemon thread, because a pending lookup must not delay the end of the process.
            threading.Thread(
                target=self._look_up, args=(key, lookup), name=f"look up {host}", daemon=True
            ).start()
        answer = await asyncio.shield(lookup)
        if isinstance(answer, OSError):
            raise answer
        return answer

    async def close(self) -> None:
        """Does nothing: a thread ends with its lookup."""

    def _look_up(self, key: _Key, lookup: asyncio.Future[_Answer]) -> None:
        host, port, family = key
        answer: _Answer
        try:
            answer = [
                ResolveResult(
                    hostname=host,
                    host=str(address[0]),
                    port=int(address[1]),
                    family=address_family,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
                for address_family, _, protocol, _, address in socket.getaddrinfo(
                    host, port, type=socket.SOCK_STREAM, family=family, flags=socket.AI_ADDRCONFIG
                )
            ]
        except OSError as error:
            answer = error
        except UnicodeError:
            answer = OSError(f"{host} is not a name")
        try:
            lookup.get_loop().call_soon_threadsafe(self._done, key, lookup, answer)
        except RuntimeError:
            return  # the event loop has ended, so there is no waiting caller

    def _done(self, key: _Key, lookup: asyncio.Future[_Answer], answer: _Answer) -> None:
        self._lookups.pop(key, None)
        if not lookup.done():
            lookup.set_result(answer)
