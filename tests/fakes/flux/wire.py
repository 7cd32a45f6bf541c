"""Messages between brokers and from commands to brokers: one JSON object a line, after a challenge on TCP."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT = 64 << 20
"""Bytes of a line: a batch script travels in one."""


class RefusedError(Exception):
    """The peer has another certificate, or refuses the connection."""


@dataclass
class Link:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, **message: Any) -> None:
        self.writer.write(json.dumps(message).encode() + b"\n")
        await self.writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """None: the other side is gone."""
        try:
            line = await self.reader.readline()
        except (ConnectionError, asyncio.IncompleteReadError, ValueError, OSError):
            return None
        if not line.endswith(b"\n"):
            return None
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        self.writer.close()


async def dial(host: str, port: int, timeout: float) -> Link:
    """Raises OSError (a name that is not known yet included) and TimeoutError."""
    return Link(*await asyncio.wait_for(asyncio.open_connection(host, port, limit=LIMIT), timeout))


async def dial_local(path: str) -> Link:
    return Link(*await asyncio.open_unix_connection(path, limit=LIMIT))


def _proof(secret: bytes, nonce: str) -> str:
    return hmac.new(secret, nonce.encode(), hashlib.sha256).hexdigest()


async def challenge(link: Link, secret: bytes) -> dict[str, Any] | None:
    """The caller's greeting; None: it could not prove that it has the certificate."""
    nonce = secrets.token_hex(16)
    await link.send(nonce=nonce)
    greeting = await link.receive()
    if greeting is None or not hmac.compare_digest(str(greeting.get("proof")), _proof(secret, nonce)):
        await link.send(refused="the certificate is another one")
        return None
    return greeting


async def introduce(link: Link, secret: bytes, **greeting: Any) -> dict[str, Any]:
    """The other side's answer.  Raises RefusedError, and ConnectionError if it hangs up."""
    requested = await link.receive()
    if requested is None:
        raise ConnectionError("closed before the handshake")
    await link.send(proof=_proof(secret, str(requested.get("nonce"))), **greeting)
    answer = await link.receive()
    if answer is None:
        raise ConnectionError("closed during the handshake")
    if "refused" in answer:
        raise RefusedError(str(answer["refused"]))
    return answer


def certificate(path: str) -> bytes:
    """The secret of a CURVE certificate.  Raises ValueError: not there, not private, or none."""
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"{path}: No such file or directory")
    if file.stat().st_mode & 0o077:
        raise ValueError(f"{path}: readable by other than owner")
    for line in file.read_text().splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "secret-key" and len(value.strip().strip('"')) == 40:
            return value.strip().strip('"').encode()
    raise ValueError(f"{path}: no secret-key of 40 characters")
