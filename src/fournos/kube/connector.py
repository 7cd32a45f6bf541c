"""Connections to an API server that are closed at once when they are given up."""

from __future__ import annotations

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey


class Connector(aiohttp.TCPConnector):
    """Aborts an abandoned TLS connection, as aiohttp does for those that are open when a session is closed.

    aiohttp closes the connection of a cut watch or of a cancelled request in good order: it waits up to 30 s
    for the peer's end of TLS.  A process that ends, or an event loop that closes, meanwhile leaves the socket
    open, and a server that no longer responds holds one socket for each abandoned request.
    """

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        if key.is_ssl and (should_close or protocol.should_close):
            protocol.abort()
        super()._release(key, protocol, should_close=should_close)
