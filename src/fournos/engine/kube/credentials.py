"""The address of an API server and the credentials for it.

`load` is for our own API server.  `fournos.engine.kube.untrusted_kubeconfig` reads kubeconfigs of users.
"""

from __future__ import annotations

import os
import ssl
from copy import copy
from pathlib import Path

from multidict import CIMultiDict, MultiMapping

from fournos.engine.kube.auth import ExecPlugin, FixedIdentity, Identity, Impersonation, Proof, TokenFile
from fournos.engine.kube.errors import CredentialsError
from fournos.engine.kube.kubeconfig import Access, access, read
from fournos.engine.kube.tls import client_context

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Credentials:
    """One API server and one identity.  Its repr contains only the server."""

    def __init__(
        self,
        server: str,
        identity: Identity,
        *,
        ca: bytes | None = None,
        verify: bool = True,
        server_name: str | None = None,
        namespace: str = "default",
    ) -> None:
        self.server = server
        self.server_name = server_name
        self.namespace = namespace
        """The namespace of the context or of the ServiceAccount."""
        self._identity = identity
        self._ca = ca
        self._verify = verify
        self._tls: ssl.SSLContext | None = None
        self._tls_for: bytes | None = None
        if server.startswith("https://"):
            # Created here so that an invalid certificate fails at start.
            self._tls = client_context(ca=ca, verify=verify)
        self._without_certificate = self._tls

    def of(self, identity: Identity) -> Credentials:
        """Returns credentials for the same API server with another identity, and nothing of this one."""
        credentials = copy(self)
        credentials._identity = identity
        credentials._tls, credentials._tls_for = self._without_certificate, None
        return credentials

    def impersonating(self, headers: tuple[tuple[str, str], ...]) -> Credentials:
        """Returns credentials that act as the user of these headers, by a right of this identity."""
        return self.of(Impersonation(self._identity, headers))

    async def proof(self) -> tuple[MultiMapping[str], ssl.SSLContext | None]:
        """Returns the headers and the TLS context of the next request.  Raises CredentialsError."""
        proof = await self._identity.proof()
        if self._tls is not None and proof.certificate != self._tls_for:
            self._tls = client_context(
                ca=self._ca, verify=self._verify, certificate=proof.certificate, key=proof.key
            )
            self._tls_for = proof.certificate
        headers = CIMultiDict(proof.headers)
        if proof.token:
            headers["Authorization"] = f"Bearer {proof.token}"
        return headers, self._tls

    def invalidate(self) -> None:
        """Discards the proof after a 401 response, so that the next one is new if possible."""
        self._identity.invalidate()

    def __repr__(self) -> str:
        return f"Credentials({self.server!r})"


def load(
    kubeconfig: Path | None = None, context: str | None = None, *, allow_exec: bool = True
) -> Credentials:
    """Returns our own credentials, from the first of these sources that is present.

    The order is: the file `kubeconfig`, KUBECONFIG, the pod's ServiceAccount, ~/.kube/config.
    Raises CredentialsError; its message contains the fix.
    """
    files = _named_files(kubeconfig)
    if not files and context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster()
    if files := files or _home_files():
        return _from_files(files, context, allow_exec=allow_exec)
    raise CredentialsError(
        "no API server to talk to: KUBECONFIG is not set, ~/.kube/config does not exist "
        "and this is not a pod; name a kubeconfig"
    )


def contexts(kubeconfig: Path | None = None) -> list[str]:
    """Returns the names of the contexts that `load` takes.  Raises CredentialsError."""
    files = _named_files(kubeconfig) or _home_files()
    return [str(entry["name"]) for entry in read(files)["contexts"]]


def _named_files(kubeconfig: Path | None) -> list[Path]:
    """The kubeconfig that is asked for, else those of KUBECONFIG that exist; none if it is not set."""
    if kubeconfig is not None:
        return [kubeconfig]
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    existing = [path for path in named if path.exists()]
    if named and not existing:
        raise CredentialsError(
            f"KUBECONFIG names {os.environ['KUBECONFIG']}, which does not exist; correct or unset it"
        )
    return existing


def _home_files() -> list[Path]:
    default = Path.home() / ".kube" / "config"
    return [default] if default.exists() else []


def in_cluster() -> Credentials:
    """Returns the credentials of the pod's ServiceAccount.  Raises CredentialsError outside of a pod."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT_HTTPS") or os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    token = SERVICE_ACCOUNT / "token"
    try:
        ca = (SERVICE_ACCOUNT / "ca.crt").read_bytes()
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
    except OSError as error:
        raise CredentialsError(
            f"the pod has no ServiceAccount token ({error.filename}: {error.strerror}); "
            "set automountServiceAccountToken: true"
        ) from error
    if not host or not token.exists():
        raise CredentialsError("this is not a pod with a ServiceAccount; name a kubeconfig")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return Credentials(server, TokenFile(token), ca=ca, namespace=namespace or "default")


def _from_files(
    paths: tuple[Path, ...] | list[Path], context: str | None, *, allow_exec: bool
) -> Credentials:
    source = os.pathsep.join(str(path) for path in paths)
    return from_access(access(read(paths), context=context, source=source, allow_exec=allow_exec))


def from_access(access: Access) -> Credentials:
    """Returns the credentials of a kubeconfig's context.  CredentialsError: invalid certificate."""
    identity: Identity
    if access.exec is not None:
        identity = ExecPlugin(access.exec)
    elif access.token_file is not None:
        # As in client-go, the file wins over an inline token.
        identity = TokenFile(access.token_file, certificate=access.certificate, key=access.key)
    else:
        identity = FixedIdentity(Proof(access.token, access.certificate, access.key))
    if access.certificate:
        # An invalid pair fails now and not at the first request.
        client_context(ca=access.ca, certificate=access.certificate, key=access.key)
    return Credentials(
        access.server,
        identity,
        ca=access.ca,
        verify=access.verify,
        server_name=access.server_name,
        namespace=access.namespace,
    )
