"""The pieces of a page: each has an id, so that only those that changed are sent to an open tab.

In a template, `{% call live("job-" ~ job.uid, "tr") %}<td>…</td>{% endcall %}` renders one.  Pieces may stand
in pieces.  A piece whose own markup is unchanged, the pieces in it left out, is not sent again.

A row of a long table names what it shows, `live("job-" ~ job.uid, "tr", of=job)`: while that is equal, the
row is not rendered again.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

ROWS: Final = 2_000
"""Rows that are kept."""
ROW_SIZE: Final = 4_000
"""Characters of a row that is kept at most."""
ROOT = "main"
"""The id of the piece that holds all others."""
CSRF: Final = secrets.token_hex(24)
"""Stands in pieces for the token of a form, which is of one session while pieces are of many.

No object can hold it: it is made anew by each process and leaves none.
"""


@dataclass(frozen=True, slots=True)
class Piece:
    html: str
    """The element with everything in it."""
    frame: str
    """The element with a mark in place of each piece in it."""
    inner: tuple[str, ...]
    """The ids of the pieces directly in it."""


def digest(pieces: Mapping[str, Piece]) -> str:
    """Returns the identity of a rendered page, the same in all replicas."""
    return hashlib.sha256(pieces[ROOT].html.replace(CSRF, "").encode()).hexdigest()[:16]


class RenderedRows:
    """Pieces by what they show; the least recently shown one goes first."""

    def __init__(self, most: int = ROWS) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, Piece] = OrderedDict()

    def get(self, key: Hashable) -> Piece | None:
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def keep(self, key: Hashable, piece: Piece) -> None:
        if len(piece.html) > ROW_SIZE:
            return
        self._kept[key] = piece
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)


class Pieces:
    """Collects the pieces while a template is rendered; it is the template's `live`."""

    def __init__(self, template: str, rows: RenderedRows) -> None:
        self.found: dict[str, Piece] = {}
        self._template = template
        self._rows = rows
        self._open: list[list[str]] = []

    def __call__(
        self, id: str, tag: str = "div", *, caller: Callable[[], str], of: Hashable = None, **attributes: str
    ) -> Markup:
        """Renders one piece.  `attributes`: class_ for class, hyphens as underscores.

        `of` is all that the piece shows; it then has no pieces in it.  Raises ValueError if the page has
        another piece with this id.
        """
        if id in self.found:
            raise ValueError(f"two pieces of the page have the id {id}")
        key = (self._template, id, of)
        piece = self._rows.get(key) if of is not None else None
        if piece is None:
            piece = self._rendered(id, tag, caller, attributes)
            if of is not None:
                if piece.inner:
                    raise ValueError(f"the piece {id} is kept by what it shows, but has pieces in it")
                self._rows.keep(key, piece)
        self.found[id] = piece
        if self._open:
            self._open[-1].append(id)
        return Markup(piece.html)  # noqa: S704 - the content was rendered by the template

    def _rendered(self, id: str, tag: str, caller: Callable[[], str], attributes: Mapping[str, str]) -> Piece:
        self._open.append([])
        content = str(caller())
        inner = self._open.pop()
        given = "".join(
            f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items()
        )
        start, end = f'<{tag} id="{escape(id)}"{given}>', f"</{tag}>"
        frame = content
        for one in inner:
            frame = frame.replace(self.found[one].html, f"\0{one}\0", 1)
        return Piece(f"{start}{content}{end}", f"{start}{frame}{end}", tuple(inner))


def changed(old: Mapping[str, Piece], new: Mapping[str, Piece], at: str = ROOT) -> Iterator[tuple[str, str]]:
    """Yields id and element of each piece to replace; a replaced piece brings the pieces in it."""
    before, now = old.get(at), new[at]
    if before is None or before.frame != now.frame:
        yield at, now.html
        return
    for one in now.inner:
        yield from changed(old, new, one)
