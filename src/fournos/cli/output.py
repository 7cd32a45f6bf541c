"""Writes the output of commands: the streams and the formats of `-o`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import yaml
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from fournos.api.kinds import Resource
from fournos.cli.options import Format
from fournos.engine.api.values import escaped, escaped_json, escaped_line
from fournos.insight.values import Obj

GAP = 2
LEGIBLE = 32
"""Characters of the last column that are worth more than another column."""


class _Console(Console):
    """The console for all output of a command.  Escapes control sequences in the printed texts."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))

    def on_broken_pipe(self) -> None:
        """Lets `command.run` end the command: rich would exit with 1, the exit code of a failed job."""
        raise BrokenPipeError


class Output:
    """The output of a command.

    Results go to stdout.  Hints, questions, warnings and errors go to stderr, so that a pipe gets only
    results.
    """

    def __init__(self, form: Format = Format.TABLE, *, color: bool | None = None) -> None:
        self.form = form
        no_color = None if color is None else not color
        self.out = _Console(file=sys.stdout, highlight=False, markup=False, emoji=False, no_color=no_color)
        self.err = _Console(file=sys.stderr, highlight=False, markup=False, emoji=False, no_color=no_color)

    @property
    def structured(self) -> bool:
        return self.form in (Format.JSON, Format.YAML)

    @property
    def interactive(self) -> bool:
        """True if stdin and stdout are terminals, so that a user can answer a question."""
        return self.out.is_terminal and sys.stdin.isatty()

    @property
    def width(self) -> int | None:
        """The columns of the terminal; None means no limit (a pipe)."""
        return self.out.width if self.out.is_terminal or os.environ.get("COLUMNS") else None

    def say(self, line: RenderableType) -> None:
        self.out.print(line, soft_wrap=True)

    def lines(self, lines: Iterable[Text | str]) -> None:
        for line in lines:
            self.say(line)

    def hint(self, line: Text | str) -> None:
        """Prints a hint for the user to stderr."""
        self.err.print(line, style="dim", soft_wrap=True)

    def warn(self, line: str) -> None:
        self.err.print(Text.assemble(("Warning: ", "yellow"), line), soft_wrap=True)

    def objects(self, resource: Resource, objects: Sequence[Obj], *, single: bool = False) -> bool:
        """Writes the objects in the format of `-o`.

        Returns False for the formats table and wide, which each command renders itself.
        """
        if self.form is Format.NAME:
            self.lines(f"{resource.kind.lower()}.{resource.group}/{o['metadata']['name']}" for o in objects)
            return True
        if not self.structured:
            return False
        clean = [without_bookkeeping(obj) for obj in objects]
        self.data(clean[0] if single else {"apiVersion": "v1", "kind": "List", "items": clean})
        return True

    def data(self, value: Any) -> None:
        """Writes the value as JSON for `-o json`, otherwise as YAML."""
        if self.form is Format.JSON:
            text = escaped_json(json.dumps(value, indent=2, ensure_ascii=False))
        else:
            text = _yaml(value, plain=True)
            if escaped(text) != text:
                text = _yaml(value, plain=False)
        self.say(Text(text))


def _yaml(value: Any, *, plain: bool) -> str:
    """Returns YAML.  `plain` keeps all printable characters; otherwise non-ASCII characters are escaped."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=plain, width=110).rstrip("\n")


def _cell(cell: str | Text) -> Text:
    """Escapes line ends in a cell: they would break the row."""
    if isinstance(cell, str):
        return Text(escaped_line(cell))
    return cell if escaped_line(cell.plain) == cell.plain else Text(escaped_line(cell.plain), cell.style)


def without_bookkeeping(obj: Obj) -> dict[str, Any]:
    """Returns the object without managedFields, as kubectl shows it."""
    meta: Mapping[str, Any] = obj.get("metadata") or {}
    return {**obj, "metadata": {name: value for name, value in meta.items() if name != "managedFields"}}


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    width: int | None = None,
    spare: Sequence[str] = (),
) -> list[Text]:
    """Returns aligned columns without trailing blanks; the last column is cut to the width.

    Where the others leave less than LEGIBLE characters for it, the columns `spare` are left out, the first of
    them first.
    """
    cells = [[Text(name, style="bold") for name in header]] if header else []
    cells += [[_cell(cell) for cell in row] for row in rows]
    if not cells:
        return []
    widths = [max(row[index].cell_len for row in cells) for index in range(len(cells[0]))]
    names = list(header)
    for name in spare:
        needed = min(widths[-1], LEGIBLE) + sum(room + GAP for room in widths[:-1])
        if width and needed > width and name in names:
            place = names.index(name)
            del names[place], widths[place]
            for row in cells:
                del row[place]
    lines = []
    for row in cells:
        line = Text()
        for cell, room in zip(row, widths, strict=True):
            padded = cell.copy()
            padded.pad_right(room - cell.cell_len + GAP)
            line.append_text(padded)
        line.rstrip()
        if width:
            line.truncate(width, overflow="ellipsis")
        lines.append(line)
    return lines


_BARS: Final = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float]) -> str:
    """Returns one bar for each value, between the smallest and the largest."""
    if not values:
        return ""
    low, high = min(values), max(values)
    if high == low:
        return _BARS[3] * len(values)
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in values)
