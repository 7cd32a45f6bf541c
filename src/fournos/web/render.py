"""Templates to HTML, and the files that pages load."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from fournos import __version__
from fournos.insight.values import count, moment, number

PREFIX: Final = "/static/"
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_TYPES: Final = (".css", ".js", ".svg", ".woff2", ".png")
SHEET: Final = "site.css"
_SHEETS: Final = ("tokens.css", "page.css")
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


# --- templates ------------------------------------------------------------------------------------


NO_VALUE: Final = "–"


@dataclass(frozen=True, slots=True)
class Link:
    """An entry of the navigation."""

    title: str
    path: str


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around the content of a page."""

    title: str
    nav: Sequence[Link]
    path: str
    """The path of the shown page, which marks its entry of the navigation."""
    under: str = ""
    """The path of the entry that is marked for a page below another one."""
    user: str = ""
    """Empty if nobody is known."""
    tag: str = ""
    """The ETag with which an open tab asks for changes; empty: it does not ask."""
    command: str = ""
    """The command line that shows the same."""
    notice: str = ""
    """One sentence about the action that led here."""


LONGEST_CELL: Final = 400
"""Characters of a text in a list; the page of the object has all of it."""

_BREAKS: Final = re.compile(r"(?<=[-./@_:=,])(?=[^-./@_:=,\s])(?!(?<=[0-9][.,:])[0-9])")
"""After punctuation, and not within a number or a time."""
_LONG: Final = re.compile(r"\S{24}(?=\S)")
"""The width that one word may force on a column."""


class Renderer:
    """Renders pages, which load `assets`."""

    def __init__(self) -> None:
        self.assets = Assets()
        self._environment = Environment(
            loader=PackageLoader("fournos.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "time": time,
            "or_dash": or_dash,
            "cell": cell,
            "words": words,
            "plural": count,
            "number": number,
            "change": lambda value: "" if value is None else f"{value:+.1%}",
            "noise": lambda value: "" if value is None else f"±{value:.1%}",
            "direction": direction,
        }
        self._environment.globals["asset"] = self.assets.url

    def content(self, template: str, data: Mapping[str, Any]) -> str:
        """Renders the content of a page, its template's name without .html."""
        html = self._environment.get_template(f"{template}.html").render(**data)
        return f'<main id="main" tabindex="-1">{html}</main>'

    def whole(self, frame: Frame, content: str) -> str:
        """Renders the whole document around its content."""
        main = Markup(content)  # noqa: S704 - rendered by a template
        return self._environment.get_template("layout.html").render(frame=frame, main=main)


def time(value: object) -> Markup:
    """Renders a time as RFC 3339 text or datetime: in UTC, and relative where scripts run."""
    if not value:
        return escape(NO_VALUE)
    found = value if isinstance(value, datetime) else moment(value)
    if found is None:
        return escape(value)
    at = found.astimezone(UTC)
    machine, human = at.isoformat(timespec="seconds"), f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(machine, human, human)


def direction(higher_is_better: bool | None) -> str:
    """Which values of a KPI are better; "" if it is not stated."""
    return {True: "higher is better", False: "lower is better", None: ""}[higher_is_better]


def or_dash(value: object) -> object:
    return value if value or value == 0 else NO_VALUE


def cell(value: object, most: int = LONGEST_CELL) -> object:
    """Cuts a text for one of many rows: a page of a hundred must not grow with what each row holds."""
    text = str(or_dash(value))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def words(value: object, most: int = LONGEST_CELL) -> Markup:
    """A text for one of many rows, which a line breaks between words and at punctuation, and copies unbroken.

    A word that is longer than a narrow column breaks where that is full.
    """
    text = str(cell(value, most))
    parts = [part for long in _BREAKS.split(text) for part in _LONG.sub(r"\g<0>\0", long).split("\0")]
    return Markup("<wbr>").join(filter(None, parts))
