"""TLS contexts from bytes; keys are never left in a file."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fournos.engine.kube.errors import CredentialsError


def client_context(
    *,
    ca: bytes | None = None,
    certificate: bytes | None = None,
    key: bytes | None = None,
    verify: bool = True,
) -> ssl.SSLContext:
    """Returns a context that trusts only `ca` (None: the system's CAs), with an optional client certificate
    (PEM).

    Raises CredentialsError for invalid PEM.
    """
    try:
        context = ssl.create_default_context(cadata=ca.decode("ascii") if ca else None)
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError("certificate-authority is not a PEM certificate") from error
    # Python 3.13 and later refuse CAs without the key usage extension, and Kubernetes clusters have such CAs.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate and key:
        with _as_file(certificate + b"\n" + key) as path:
            try:
                context.load_cert_chain(path)
            except (ssl.SSLError, ValueError) as error:
                raise CredentialsError(
                    "the client certificate and its key are not PEM or do not belong together"
                ) from error
    return context


def server_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Returns a context for a server with this certificate (PEM).  Raises ssl.SSLError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    show(context, certificate, key)
    return context


def show(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Makes a server use this certificate from its next connection on.  Raises ssl.SSLError."""
    with _as_file(certificate + b"\n" + key) as path:
        context.load_cert_chain(path)


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yields a path with `content`: in memory on Linux, elsewhere in a private file that is deleted at once.

    `ssl` loads keys only from paths.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("fournos-key")
        try:
            with os.fdopen(os.dup(descriptor), "wb") as stream:
                stream.write(content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory() as folder:  # mode 0700
        path = Path(folder) / "pair.pem"
        path.touch(mode=0o600)
        path.write_bytes(content)
        yield str(path)
