"""A stand-in for HashiCorp Vault: the part of its KV HTTP API, versions 1 and 2, that a sync uses.

Not a Vault: no policies beyond one token, no leases, no writes.  It answers as the published API
documentation describes, LIST verb and `?list=true` alike, and fails or is slow on demand.
"""

from __future__ import annotations

import json
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

TOKEN = "s.stand-in-token"


@dataclass
class FakeVault:
    """A server on a free port of 127.0.0.1 while entered."""

    entries: Any = field(default_factory=dict)
    """Mapping by path below the mount; None is an entry whose latest version is deleted (version 2)."""
    version: str = "2"
    mount: str = "kv"
    knows_mounts: bool = True
    """Whether the token may ask for the mount's version."""
    failures: dict[str, list[int]] = field(default_factory=dict)
    """Status codes to answer, one a request, for request paths that contain the key."""
    silent: set[str] = field(default_factory=set)
    """Parts of request paths that get no answer until the server closes."""
    requests: list[str] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    """Of Vault Enterprise, as each request names it."""
    tls: ssl.SSLContext | None = None

    def __enter__(self) -> Self:
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self._server.server_port}"

    def environment(self, path: str = "team/secrets") -> dict[str, str]:
        return {"VAULT_ADDR": self.url, "VAULT_TOKEN": TOKEN, "VAULT_SECRET_PATH": path}

    def answer(self, method: str, url: str, token: str | None) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(url)
        path = unquote(parts.path).removeprefix("/v1/")
        listing = method == "LIST" or "list=true" in parts.query
        self.requests.append(f"{'LIST' if listing else method} {path}")
        for part in self.silent:
            if part in path:
                self._closing.wait(30)
        for part, codes in self.failures.items():
            if part in path and codes:
                return codes.pop(0), {"errors": ["told to fail"]}
        if token != TOKEN:
            return 403, {"errors": ["permission denied"]}
        if path == f"sys/internal/ui/mounts/{self.mount}":
            if not self.knows_mounts:
                return 403, {"errors": ["preflight capability check returned 403"]}
            options = {"version": "2"} if self.version == "2" else None
            return 200, {"data": {"type": "kv", "options": options}}
        return self._listed(path) if listing else self._read(path)

    def _below_mount(self, path: str, kind: str) -> str | None:
        prefix = f"{self.mount}/{kind}/" if self.version == "2" else f"{self.mount}/"
        return path.removeprefix(prefix) if path.startswith(prefix) else None

    def _listed(self, path: str) -> tuple[int, dict[str, Any]]:
        directory = self._below_mount(path, "metadata")
        names = set()
        for entry in self.entries:
            if directory is not None and entry.startswith(f"{directory}/"):
                head, slash, _ = entry.removeprefix(f"{directory}/").partition("/")
                names.add(head + slash)
        return (200, {"data": {"keys": sorted(names)}}) if names else (404, {"errors": []})

    def _read(self, path: str) -> tuple[int, dict[str, Any]]:
        entry = self._below_mount(path, "data")
        if entry is None or entry not in self.entries:
            return 404, {"errors": []}
        data = self.entries[entry]
        if self.version == "1":
            return 200, {"data": data}
        metadata = {"version": 3, "deletion_time": "" if data is not None else "2026-01-01T00:00:00Z"}
        return (200 if data is not None else 404), {"data": {"data": data, "metadata": metadata}}


def _handler(vault: FakeVault) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            vault.namespaces.append(self.headers.get("X-Vault-Namespace") or "")
            status, body = vault.answer(self.command, self.path, self.headers.get("X-Vault-Token"))
            content = json.dumps(body).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except ConnectionError:
                return  # the client gave up waiting

        do_GET = do_LIST = _serve  # noqa: N815 - the names that http.server looks for

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler
