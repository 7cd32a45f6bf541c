"""Requests to a path of an API server, whatever it serves there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
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
