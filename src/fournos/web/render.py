"""Templates to HTML.  All values are escaped; templates know no domain, only the data of their page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from fournos.engine.api.values import parse_time
from fournos.insight.values import count
from fournos.web.assets import Assets

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

_BREAKS: Final = re.compile(r"(?<=[-./@_:])(?=[^-./@_:])")
_LONGEST_PART: Final = 24
"""Characters: the width that a part of a name may force on a column."""


class Renderer:
    """Renders pages."""

    def __init__(self, assets: Assets) -> None:
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
        }
        self._environment.globals["asset"] = assets.url

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
    found = value if isinstance(value, datetime) else parse_time(str(value))
    moment = found.astimezone(UTC)
    machine, human = moment.isoformat(timespec="seconds"), f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(machine, human, human)


def or_dash(value: object) -> object:
    return value if value or value == 0 else NO_VALUE


def cell(value: object) -> object:
    """Cuts a text for one of many rows: a page of a hundred must not grow with what each row holds."""
    text = str(or_dash(value))
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"


def words(value: object) -> Markup:
    """A name for one of many rows, which a line may break at its punctuation, and copies unbroken.

    A part that is longer than a narrow column still breaks anywhere, as all text does.
    """
    text = str(cell(value))
    parts = [part for part in _BREAKS.split(text) if part]
    broken = Markup("<wbr>").join(parts)
    if len(parts) < 2 or max(map(len, parts)) > _LONGEST_PART:
        return broken
    return Markup('<span class="words">{}</span>').format(broken)
