"""Client authentication: a fixed token or certificate, a token file that is reloaded, an exec plugin."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

import orjson

from fournos.engine.kube.errors import CredentialsError

# --- TLS contexts -----------------------------------------------------------------------------------
# TLS contexts from bytes; keys are never left in a file.


_INVALID: Final = "InvalidCertificate"


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
        raise CredentialsError("certificate-authority is not a PEM certificate", reason=_INVALID) from error
    # Python 3.13 and later refuse CAs without the key usage extension, and Kubernetes clusters have such CAs.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate and key:
        with _as_file(certificate + b"\n" + key) as path:
            try:
                context.load_cert_chain(path, password=_no_password)
            except (ssl.SSLError, ValueError) as error:
                raise CredentialsError(
                    "the client certificate and its key are not PEM or do not belong together",
                    reason=_INVALID,
                ) from error
    return context


def _no_password() -> str:
    """Refuses an encrypted key.  Without this OpenSSL would ask for its password on the terminal."""
    raise CredentialsError(
        "the client key is encrypted, and nobody is there to give its password; "
        "store it without one: openssl pkey -in encrypted.key -out client.key",
        reason=_INVALID,
    )


def server_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Returns a context for a server with this certificate (PEM).  Raises ssl.SSLError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with _as_file(certificate + b"\n" + key) as path:
        context.load_cert_chain(path)
    return context


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


TOKEN_FILE_MAX_AGE = 60.0
"""Seconds; the kubelet renews a projected token long before it expires."""
EXEC_TIMEOUT = 30.0
FRESH = 10.0
"""Seconds for which a plugin's result is not requested again, even after a 401."""
_EXPIRY_MARGIN = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class ExecSpec:
    """An exec credential plugin (client.authentication.k8s.io)."""

    api_version: str
    command: str
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    install_hint: str
    cluster_info: Mapping[str, Any] | None
    """The cluster information for the plugin (`provideClusterInfo`)."""


@dataclass(frozen=True, slots=True, repr=False)
class Proof:
    """A bearer token, a client certificate with its key (PEM), both or neither.  Secret: no repr."""

    token: str | None = None
    certificate: bytes | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers, such as those of an impersonation."""


class Identity(Protocol):
    """A source of proofs."""

    async def proof(self) -> Proof:
        """Returns the present proof.  Raises CredentialsError."""
        ...

    def invalidate(self) -> None:
        """Discards the proof after a 401 response, so that the next one is new if possible."""
        ...


class FixedIdentity:
    """A proof that never changes."""

    def __init__(self, proof: Proof) -> None:
        self._proof = proof

    async def proof(self) -> Proof:
        return self._proof

    def invalidate(self) -> None:
        """Does nothing: there is no other proof."""


class Impersonation:
    """Another user's identity, by the right of ours to impersonate."""

    def __init__(self, own: Identity, headers: tuple[tuple[str, str], ...]) -> None:
        """`headers`: Impersonate-User and those beside it."""
        self._own = own
        self._headers = headers

    async def proof(self) -> Proof:
        return replace(await self._own.proof(), headers=self._headers)

    def invalidate(self) -> None:
        self._own.invalidate()


class TokenFile:
    """A token in a file that another process renews in place, such as the kubelet."""

    def __init__(
        self,
        path: Path,
        *,
        certificate: bytes | None = None,
        key: bytes | None = None,
    ) -> None:
        self._path = path
        self._certificate = certificate
        self._key = key
        self._proof: Proof | None = None
        self._read_at = 0.0

    async def proof(self) -> Proof:
        now = asyncio.get_running_loop().time()
        if self._proof is None or now - self._read_at >= TOKEN_FILE_MAX_AGE:
            token = self._read()
            if token:
                self._proof = Proof(token, self._certificate, self._key)
                self._read_at = now
        if self._proof is None:
            raise CredentialsError(f"token file {self._path} is missing or empty")
        return self._proof

    def invalidate(self) -> None:
        self._read_at = float("-inf")

    def _read(self) -> str:
        """Returns the token; "" if the file is unreadable, as during its replacement: the old token stays."""
        try:
            return self._path.read_text().strip()
        except OSError:
            return ""


class ExecPlugin:
    """Runs the exec plugin of a kubeconfig, only once at a time, and caches its result until it expires."""

    def __init__(
        self,
        spec: ExecSpec,
        *,
        timeout: float = EXEC_TIMEOUT,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._spec = spec
        self._timeout = timeout
        self._now = now
        self._proof: Proof | None = None
        self._expires: datetime | None = None
        self._made_at = 0.0
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        """By event loop: in that of a forked process nothing would release the lock of its parent."""

    async def proof(self) -> Proof:
        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if self._proof is None or (self._expires and self._now() >= self._expires - _EXPIRY_MARGIN):
                self._proof = None
                status = self._check(await self._run())
                self._expires = self._expiry(status)
                self._made_at = asyncio.get_running_loop().time()
                certificate = status.get("clientCertificateData")
                key = status.get("clientKeyData")
                self._proof = Proof(
                    status.get("token"),
                    str(certificate).encode() if certificate else None,
                    str(key).encode() if key else None,
                )
            return self._proof

    def invalidate(self) -> None:
        # Many concurrent requests may fail with 401; one new run is enough for all of them.
        if asyncio.get_running_loop().time() - self._made_at > FRESH:
            self._proof = None

    async def _run(self) -> bytes:
        info: dict[str, Any] = {"interactive": False}
        if self._spec.cluster_info is not None:
            info["cluster"] = self._spec.cluster_info
        request = {"apiVersion": self._spec.api_version, "kind": "ExecCredential", "spec": info}
        environment = {
            **os.environ,
            **dict(self._spec.env),
            "KUBERNETES_EXEC_INFO": orjson.dumps(request).decode(),
        }
        try:
            process = await asyncio.create_subprocess_exec(
                self._spec.command,
                *self._spec.args,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # so that a timeout also kills its child processes
            )
        except OSError as error:
            hint = f"; {self._spec.install_hint}" if self._spec.install_hint else ""
            raise self._failed(f"cannot be started: {error.strerror}{hint}") from error
        try:
            async with asyncio.timeout(self._timeout):
                output, stderr = await process.communicate()
        except TimeoutError:
            raise self._failed(f"gave no answer within {self._timeout:g} s") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            raise self._failed(f"ended with code {process.returncode}: {_last_line(stderr)}")
        return output

    def _check(self, output: bytes) -> dict[str, Any]:
        try:
            answer = orjson.loads(output)
            status = answer["status"]
            version = answer.get("apiVersion")
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            raise self._failed("did not print an ExecCredential") from None
        if version != self._spec.api_version:
            raise self._failed(f"speaks another version than {self._spec.api_version}")
        pair = bool(status.get("clientCertificateData")), bool(status.get("clientKeyData"))
        if pair[0] != pair[1] or not (status.get("token") or pair[0]):
            raise self._failed("printed neither a token nor a certificate with its key")
        return dict(status)

    def _expiry(self, status: dict[str, Any]) -> datetime | None:
        text = status.get("expirationTimestamp")
        if not text:
            return None
        try:
            return datetime.fromisoformat(str(text).replace("Z", "+00:00"))
        except ValueError:
            raise self._failed("printed an expirationTimestamp that is no time") from None

    def _failed(self, what: str) -> CredentialsError:
        return CredentialsError(f"exec plugin {Path(self._spec.command).name} {what}")


def _last_line(stderr: bytes) -> str:
    """Returns the last line of the plugin's output, with anything hidden that could be a token."""
    lines = stderr.decode(errors="replace").strip().splitlines() or ["no message"]
    return re.sub(r"[A-Za-z0-9_\-.+=]{25,}", "…", lines[-1])[:300]
