"""Writes the output of commands: the streams and the formats of `-o`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import yaml
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from fournos.api.kinds import Resource
from fournos.api.phase import Phase
from fournos.cli.options import Format
from fournos.engine.api.values import escaped, escaped_json, escaped_line
from fournos.insight.children import CANCELLED, FAILED, RUNNING, SKIPPED, SUCCEEDED, WAITING, Task
from fournos.insight.values import (
    Obj,
    between,
    conditions_of,
    created,
    name_of,
    one_line,
    phase_of,
    short,
    since,
    status_of,
    timeline,
)

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

    def text(self, text: str) -> None:
        """Writes a text as it is, for a pipe or a file; on a terminal without what it would obey."""
        self.out.file.write(escaped(text) if self.out.is_terminal else text)

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

    def answer(
        self,
        data: Any,
        header: Sequence[str],
        rows: Sequence[Sequence[str | Text]],
        *,
        nothing: str = "",
        spare: Sequence[str] = (),
    ) -> None:
        """Writes `data` for the formats json and yaml, else the rows as a table, or the hint `nothing`."""
        if self.structured:
            self.data(data)
        elif nothing and not rows:
            self.hint(nothing)
        else:
            self.lines(table(header, rows, width=self.width, spare=spare))

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


_STYLES: Final = {
    **{phase.value: phase.traits.style for phase in Phase},
    # of AppWrappers
    "Suspended": "yellow",
    "Resuming": "blue",
    "Resetting": "magenta",
    "Suspending": "magenta",
    "Terminating": "magenta",
    # of MiniClusters
    "Waiting": "yellow",
    "Ready": "green",
    "Finished": "dim",
    # of schedules; Suspended as of AppWrappers
    "Invalid": "bold red",
    "Overlapping": "magenta",
    "Active": "blue",
}


def phase_text(phase: str) -> Text:
    return Text(phase, style=phase_style(phase))


def connection_text(error: Exception | None) -> str:
    """What is said when a watch breaks, and when it works again: None."""
    return f"connection lost, trying again: {error}" if error else "connected again"


def phase_style(phase: str) -> str:
    return _STYLES.get(phase, "dim")


_MARKS: Final = {
    SUCCEEDED: ("✓", "green"),
    FAILED: ("✗", "bold red"),
    CANCELLED: ("✗", "magenta"),
    SKIPPED: ("-", "dim"),
    RUNNING: ("▶", "bold blue"),
    WAITING: ("·", "dim"),
}


def headline(job: Obj) -> Text:
    """Returns one line with name, phase, cluster and attempt."""
    status = status_of(job)
    line = Text.assemble((name_of(job), "bold"), "  ", phase_text(phase_of(job)))
    if status.get("cluster"):
        line.append(f"  on {status['cluster']}")
    if (status.get("attempt") or 0) > 1:
        line.append(f"  attempt {status['attempt']}")
    return line


def progress(job: Obj, tasks: list[Task], now: datetime) -> list[Text]:
    """Returns the phases, with the tasks below Running, and the message."""
    entries = timeline(job, now)
    lines = [headline(job)]
    for entry in entries:
        mark, style = ("▶", phase_style(entry.phase)) if entry.current else ("✓", "green")
        lines.append(Text.assemble("  ", (mark, style), f" {entry.phase:<10} ", (short(entry.length), "dim")))
        if entry.phase == "Running":
            lines += task_lines(tasks, now, indent=6)
    if message := one_line(status_of(job).get("message")):
        lines.append(Text(f"  {message}"))
    return lines


def task_lines(found: list[Task], now: datetime, *, indent: int) -> list[Text]:
    width = max((len(task.name) for task in found), default=0)
    return [_task_line(task, now, indent, width) for task in found]


def _task_line(task: Task, now: datetime, indent: int, width: int) -> Text:
    mark, style = _MARKS[task.state]
    took = between(task.started, task.finished, now) if task.started else task.state.lower()
    line = Text.assemble(" " * indent, (mark, style), f" {task.name:<{width}}  ", (took, "dim"))
    if task.final:
        line.append("  finally", style="dim")
    if task.state in (FAILED, SKIPPED) and task.message:
        line.append(f"  {task.message}")
    return line


def details(
    obj: Obj, facts: Iterable[tuple[str, object]], sections: Iterable[tuple[str, Sequence[Text]]]
) -> list[Text]:
    """Returns the headline, the facts that have a value and the sections that have lines."""
    lines = [headline(obj)]
    lines += [Text.assemble("  ", (f"{label:<13}", "dim"), str(value)) for label, value in facts if value]
    for title, body in sections:
        lines += section(title, body)
    return lines


def section(title: str, body: Sequence[Text]) -> list[Text]:
    """Returns a title and the indented lines below it; nothing without lines."""
    if not body:
        return []
    return [Text(), Text(title, style="bold"), *(Text("  ").append_text(line) for line in body)]


def created_fact(obj: Obj, now: datetime) -> str:
    """The time of creation, and how long ago that was."""
    return f"{created(obj)} ({since(created(obj), now)} ago)"


def condition_table(obj: Obj, now: datetime, width: int | None) -> list[Text]:
    rows = [
        (
            str(c.get("type")),
            str(c.get("status")),
            str(c.get("reason") or "-"),
            since(c.get("lastTransitionTime"), now),
            one_line(c.get("message")),
        )
        for c in conditions_of(obj)
    ]
    header = ("TYPE", "STATUS", "REASON", "SINCE", "MESSAGE")
    return table(header, rows, width=width and width - 2) if rows else []


def steps_table(steps: Sequence[tuple[str, str]]) -> list[Text]:
    """Returns commands, each with what it does."""
    width = max(len(command) for command, _ in steps)
    return [Text.assemble(f"{command:<{width}}   ", (text, "dim")) for command, text in steps]
