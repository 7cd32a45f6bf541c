"""Requests to a path of an API server, whatever it serves there, and its clock."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import BinaryIO

from fournos.engine.kube.bodies import pieces
from fournos.engine.kube.resource import Obj
from fournos.engine.kube.transport import ApiRequest, Transport


class Paths:
    """The part of `Client` for paths."""

    _transport: Transport

    async def raw_get(self, path: str) -> bytes:
        """Returns the body at a path such as "/readyz"; raises the errors of `get`."""
        return await self._transport.send(ApiRequest("get", "", "GET", path))

    async def raw(
        self,
        method: str,
        path: str,
        body: Obj | None = None,
        *,
        content: bytes | BinaryIO | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> bytes:
        """Sends a request to a path, its query included; returns the body.  Raises the errors of `Api`.

        `content` is sent as it is, a file in pieces; `seconds` is the limit of the whole request.
        """
        request = ApiRequest(
            method.lower(),
            "",
            method,
            path,
            body=body,
            content=content,
            headers=headers or {},
            seconds=seconds,
        )
        return await self._transport.send(request)

    async def raw_stream(self, path: str) -> AsyncGenerator[bytes, None]:
        """Returns the body at a path in pieces, after an await, which raises the errors of `get`."""
        return pieces(await self._transport.stream(ApiRequest("get", "", "GET", path)))

    async def server_time(self) -> datetime | None:
        """Returns the API server's clock, in whole seconds; None without a readable Date header."""
        request = ApiRequest("get", "", "GET", "/version")
        async with await self._transport.stream(request) as response:
            try:
                return parsedate_to_datetime(response.headers.get("Date", ""))
            except ValueError:
                return None
