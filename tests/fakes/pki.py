"""A certificate authority for tests: that of local clusters, in PEM."""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from devcluster import pki


class Pair(NamedTuple):
    """PEM."""

    certificate: bytes
    key: bytes


class Authority:
    def __init__(self, name: str) -> None:
        self._pair = pki.authority(name)
        self.certificate = self._pair.certificate_pem

    def issue(self, name: str, *, address: str = "127.0.0.1") -> Pair:
        """A certificate for a client called `name`, or for a server at `address`; of one hour."""
        until = datetime.now(UTC) + timedelta(hours=1)
        issued = pki.issue(self._pair, name, hosts=[address], until=until)
        return Pair(issued.certificate_pem, issued.key_pem)


def server_context(pair: Pair) -> ssl.SSLContext:
    """For a server that shows this certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context
