"""Reads kubeconfigs without any code of the product."""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml


def connection(kubeconfig: Path) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    """Address, TLS and headers of the current context; inline data or files, certificate or token."""
    with tempfile.TemporaryDirectory() as directory:  # Python reads keys from files only
        return _connection(yaml.safe_load(kubeconfig.read_text()), Path(directory))


def _connection(config: Mapping[str, Any], directory: Path) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    def named(kind: str, name: str) -> dict[str, Any]:
        entry: dict[str, Any] = next(entry for entry in config[f"{kind}s"] if entry["name"] == name)
        return entry[kind]  # type: ignore[no-any-return]

    def file(section: Mapping[str, Any], field: str) -> str | None:
        if f"{field}-data" in section:
            path = directory / field
            path.write_bytes(base64.b64decode(section[f"{field}-data"]))
            return str(path)
        found: str | None = section.get(field)
        return found

    context = named("context", config["current-context"])
    cluster, user = named("cluster", context["cluster"]), named("user", context["user"])
    tls = ssl.create_default_context(cafile=file(cluster, "certificate-authority"))
    certificate = file(user, "client-certificate")
    if certificate:
        tls.load_cert_chain(certificate, file(user, "client-key"))
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return cluster["server"], tls, headers
