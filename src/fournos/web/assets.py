"""The files that pages load: read once, compressed once, named by their hash, so that browsers keep them."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from aiohttp import web

from fournos import __version__

PREFIX: Final = "/static/"
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_TYPES: Final = (".css", ".js", ".svg", ".woff2", ".png")
SHEET: Final = "site.css"
_SHEETS: Final = ("vendor/uPlot.min.css", "tokens.css", "page.css", "fleet.css", "jobs.css")
"""Served as one file: a browser paints nothing before it has each style sheet of the head."""


@dataclass(frozen=True, slots=True)
class Asset:
    content: bytes
    packed: bytes
    type: str
    digest: str
    """The beginning of the SHA-256 in hexadecimal digits."""


class Assets:
    """The files of the package's folder static; its style sheets are one."""

    def __init__(self) -> None:
        contents = dict(_walk(files("fournos.web") / "static", ""))
        contents[SHEET] = b"\n".join(contents.pop(name) for name in _SHEETS)
        self._found = {name: _asset(name, content) for name, content in contents.items()}
        digests = ",".join(sorted(one.digest for one in self._found.values()))
        self.version = hashlib.sha256(f"{__version__} {digests}".encode()).hexdigest()[:16]
        """Differs between versions of the page."""

    def url(self, name: str) -> str:
        """Returns the address of a file, such as "app.js".  Raises KeyError."""
        return f"{PREFIX}{self._found[name].digest}/{name}"

    def content(self, name: str) -> bytes:
        """Returns a file.  Raises KeyError."""
        return self._found[name].content

    async def serve(self, request: web.Request) -> web.Response:
        """Serves /static/{digest}/{name}."""
        asset = self._found.get(request.match_info["name"])
        if asset is None or asset.digest != request.match_info["digest"]:
            raise web.HTTPNotFound
        headers = {"Cache-Control": _FOR_EVER, "Vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return web.Response(body=asset.packed, headers=headers, content_type=asset.type, charset="utf-8")
        return web.Response(body=asset.content, headers=headers, content_type=asset.type, charset="utf-8")


def _asset(name: str, content: bytes) -> Asset:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    digest = hashlib.sha256(content).hexdigest()[:16]
    return Asset(content, gzip.compress(content, 9, mtime=0), kind, digest)


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    content: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            content += _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_TYPES):
            content.append((prefix + entry.name, entry.read_bytes()))
    return content
