"""The address of an API server and the credentials for it.

`load` is for our own API server.  `fournos.engine.kube.untrusted_kubeconfig` reads kubeconfigs of users.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from multidict import CIMultiDict, MultiMapping

from fournos.engine.kube.auth import (
    ExecPlugin,
    ExecSpec,
    FixedIdentity,
    Identity,
    Impersonation,
    Proof,
    TokenFile,
    client_context,
)
from fournos.engine.kube.errors import CredentialsError

# --- kubeconfig files -------------------------------------------------------------------------------
# Kubeconfig files: read, merged and checked before any of their content is used.

Config: TypeAlias = Mapping[str, Any]

_LISTS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_FILE_FIELDS = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
_REFUSED = {
    "auth-provider": "Kubernetes removed auth providers; use an exec plugin or a token",
    "username": "Kubernetes removed basic authentication; use a token or a client certificate",
    "password": "Kubernetes removed basic authentication; use a token or a client certificate",
    "as": "impersonation is not supported; use credentials of the identity itself",
    "as-groups": "impersonation is not supported; use credentials of the identity itself",
    "as-uid": "impersonation is not supported; use credentials of the identity itself",
}


def read(paths: Sequence[Path]) -> Config:
    """Returns the merged files.  The first entry of a name wins, as in kubectl.  Paths become absolute."""
    merged: dict[str, Any] = {name: [] for name in _LISTS}
    for path in paths:
        try:
            config = parse(path.read_bytes(), source=str(path))
        except OSError as error:
            raise CredentialsError(f"kubeconfig {path}: {error.strerror}") from error
        if not merged.get("current-context"):
            merged["current-context"] = config.get("current-context")
        for plural, singular in _LISTS.items():
            known = {entry["name"] for entry in merged[plural]}
            for entry in config.get(plural) or ():
                if entry["name"] not in known:
                    body = _with_absolute_paths(plural, entry.get(singular) or {}, path.parent)
                    merged[plural].append({"name": entry["name"], singular: body})
    return merged


def parse(content: bytes | str, *, source: str = "kubeconfig") -> Config:
    """Parses the text of a kubeconfig.  Raises CredentialsError; its message never quotes the text."""
    return checked(_loaded(content, source), source=source)


def _loaded(content: bytes | str, source: str) -> object:
    try:
        return yaml.safe_load(content)
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise CredentialsError(f"{source} is not YAML{where}") from None


def checked(config: object, *, source: str = "kubeconfig") -> Config:
    """Returns the parsed kubeconfig if its lists have the right shape.  Raises CredentialsError."""
    if not isinstance(config, dict):
        raise CredentialsError(f"{source} is not a kubeconfig: expected clusters, users and contexts")
    for plural, singular in _LISTS.items():
        entries = config.get(plural) or []
        well_formed = isinstance(entries, list) and all(
            isinstance(entry, dict)
            and isinstance(entry.get("name"), str)
            and isinstance(entry.get(singular) or {}, dict)
            for entry in entries
        )
        if not well_formed:
            raise CredentialsError(f"{source}: {plural} must be a list of name and {singular}")
    return config


def credentials_of(
    config: Config,
    *,
    context: str | None = None,
    source: str = "kubeconfig",
    allow_exec: bool = False,
) -> Credentials:
    """Returns the credentials of a context (None: the current one).

    It reads the files that the kubeconfig names: an untrusted one is checked before
    (`fournos.engine.kube.untrusted_kubeconfig`).  Raises CredentialsError; its message contains the fix.
    """
    name, chosen, cluster, user = _chosen(config, context, source)
    _refuse(cluster, user, source, allow_exec=allow_exec)
    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        raise CredentialsError(f"{source}: server of context {name} must be an https:// URL")
    ca, proof = _content(cluster, "certificate-authority", source), _proof(user, source)
    identity: Identity
    if user.get("exec"):
        identity = ExecPlugin(_exec(user["exec"], cluster, ca, source))
    elif user.get("tokenFile"):
        # As in client-go, the file wins over an inline token.
        identity = TokenFile(Path(user["tokenFile"]), certificate=proof.certificate, key=proof.key)
    else:
        identity = FixedIdentity(proof)
    if proof.certificate:
        # An invalid pair fails now and not at the first request.
        client_context(ca=ca, certificate=proof.certificate, key=proof.key)
    return Credentials(
        server.rstrip("/"),
        identity,
        ca=ca,
        verify=not cluster.get("insecure-skip-tls-verify"),
        server_name=cluster.get("tls-server-name"),
        namespace=str(chosen.get("namespace") or "default"),
    )


def proof_of(config: Config) -> Proof:
    """Returns the token and the client certificate in the current context.  Raises CredentialsError."""
    return _proof(_chosen(config, None, "kubeconfig")[3], "kubeconfig")


def _chosen(config: Config, context: str | None, source: str) -> tuple[str, Config, Config, Config]:
    """Returns the name of the context, and the context, its cluster and its user."""
    name = str(context or config.get("current-context") or "")
    if not name:
        raise CredentialsError(f"{source} has no current-context; set one or name a context")
    chosen = _entry(config, "contexts", name, source)
    cluster = _entry(config, "clusters", str(chosen.get("cluster") or ""), source)
    user = _entry(config, "users", str(chosen["user"]), source) if chosen.get("user") else {}
    return name, chosen, cluster, user


def _proof(user: Config, source: str) -> Proof:
    certificate, key = _content(user, "client-certificate", source), _content(user, "client-key", source)
    if bool(certificate) != bool(key):
        raise CredentialsError(f"{source}: client-certificate and client-key must be given together")
    return Proof(str(user["token"]).strip() if user.get("token") else None, certificate, key)


def _entry(config: Config, plural: str, name: str, source: str) -> Config:
    for entry in config.get(plural) or ():
        if entry["name"] == name:
            return entry.get(_LISTS[plural]) or {}
    known = ", ".join(sorted(entry["name"] for entry in config.get(plural) or ())) or "none"
    raise CredentialsError(f"{source} has no {_LISTS[plural]} {name!r}; it has: {known}")


def _refuse(cluster: Config, user: Config, source: str, *, allow_exec: bool) -> None:
    if cluster.get("proxy-url"):
        raise CredentialsError(
            f"{source}: proxy-url is not supported; name a server that is reached directly"
        )
    for name, fix in _REFUSED.items():
        if user.get(name):
            raise CredentialsError(f"{source}: {name} is not supported: {fix}")
    if user.get("exec") and not allow_exec:
        raise CredentialsError(
            f"{source}: exec plugins are not allowed here; use a token or a client certificate"
        )


def _content(entry: Config, field: str, source: str) -> bytes | None:
    """Returns the content of a field; inline data have precedence over the file, as in kubectl."""
    data = entry.get(f"{field}-data")
    if data:
        try:
            return base64.b64decode("".join(str(data).split()), validate=True)  # base64(1) breaks its lines
        except (binascii.Error, ValueError):
            raise CredentialsError(f"{source}: {field}-data is not base64") from None
    path = entry.get(field)
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CredentialsError(f"{source}: {field} {path}: {error.strerror}") from error


def _exec(spec: Config, cluster: Config, ca: bytes | None, source: str) -> ExecSpec:
    version = str(spec.get("apiVersion") or "")
    if version not in ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"):
        raise CredentialsError(f"{source}: exec apiVersion must be client.authentication.k8s.io/v1")
    if not spec.get("command"):
        raise CredentialsError(f"{source}: exec names no command")
    if spec.get("interactiveMode") == "Always":
        raise CredentialsError(f"{source}: exec plugin {spec['command']} needs a terminal; there is none")
    info: dict[str, Any] | None = None
    if spec.get("provideClusterInfo"):
        info = {"server": cluster.get("server")}
        if ca:
            info["certificate-authority-data"] = base64.b64encode(ca).decode()
        for name in ("tls-server-name", "insecure-skip-tls-verify"):
            if cluster.get(name):
                info[name] = cluster[name]
    return ExecSpec(
        api_version=version,
        command=str(spec["command"]),
        args=tuple(str(arg) for arg in spec.get("args") or ()),
        env=tuple((str(item["name"]), str(item["value"])) for item in spec.get("env") or ()),
        install_hint=str(spec.get("installHint") or ""),
        cluster_info=info,
    )


def _with_absolute_paths(plural: str, entry: Config, folder: Path) -> Config:
    fixed = dict(entry)
    for name in _FILE_FIELDS.get(plural, ()):
        if fixed.get(name):
            fixed[name] = str(folder / str(fixed[name]))
    plugin = fixed.get("exec")
    # As in kubectl: a command with a slash is relative to the kubeconfig, any other is searched in PATH.
    if isinstance(plugin, dict) and "/" in str(plugin.get("command") or ""):
        fixed["exec"] = {**plugin, "command": str(folder / str(plugin["command"]))}
    return fixed


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
    return credentials_of(read(paths), context=context, source=source, allow_exec=allow_exec)
