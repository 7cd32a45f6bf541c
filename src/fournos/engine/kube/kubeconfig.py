"""Kubeconfig files: read, merged and checked before any of their content is used."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from fournos.engine.kube.errors import CredentialsError

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


@dataclass(frozen=True, slots=True)
class ExecSpec:
    """An exec credential plugin (client.authentication.k8s.io)."""

    api_version: str
    command: str
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    install_hint: str
    cluster_info: Config | None
    """The cluster information for the plugin (`provideClusterInfo`)."""


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """The content of one context of a kubeconfig.  It holds secrets, so it has no repr."""

    server: str
    namespace: str
    ca: bytes | None
    verify: bool
    server_name: str | None
    token: str | None
    token_file: Path | None
    certificate: bytes | None
    key: bytes | None
    exec: ExecSpec | None


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


def access(
    config: Config,
    *,
    context: str | None = None,
    source: str = "kubeconfig",
    allow_exec: bool = False,
) -> Access:
    """Returns the content of a context (None: the current one).

    It reads the files that the kubeconfig names: an untrusted one is checked before
    (`fournos.engine.kube.untrusted_kubeconfig`).  Raises CredentialsError; its message contains the fix.
    """
    name = context or config.get("current-context")
    if not name:
        raise CredentialsError(f"{source} has no current-context; set one or name a context")
    chosen = _entry(config, "contexts", str(name), source)
    cluster = _entry(config, "clusters", str(chosen.get("cluster") or ""), source)
    user = _entry(config, "users", str(chosen["user"]), source) if chosen.get("user") else {}
    _refuse(cluster, user, source, allow_exec=allow_exec)

    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        raise CredentialsError(f"{source}: server of context {name} must be an https:// URL")
    ca = _content(cluster, "certificate-authority", source)
    token = str(user["token"]).strip() if user.get("token") else None
    certificate = _content(user, "client-certificate", source)
    key = _content(user, "client-key", source)
    if bool(certificate) != bool(key):
        raise CredentialsError(f"{source}: client-certificate and client-key must be given together")
    return Access(
        server=server.rstrip("/"),
        namespace=str(chosen.get("namespace") or "default"),
        ca=ca,
        verify=not cluster.get("insecure-skip-tls-verify"),
        server_name=cluster.get("tls-server-name"),
        token=token,
        token_file=Path(user["tokenFile"]) if user.get("tokenFile") else None,
        certificate=certificate,
        key=key,
        exec=_exec(user["exec"], cluster, ca, source) if user.get("exec") else None,
    )


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
            return base64.b64decode(str(data), validate=True)
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
