"""The parts of a command that shows one object: facts, sections, tables of conditions and Workloads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.text import Text

from fournos.cli.output import table
from fournos.cli.progress import headline
from fournos.engine.kube.resource import Obj
from fournos.insight.queued import workload_state
from fournos.insight.values import conditions_of, created, name_of, one_line, since


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


def workload_table(workloads: Iterable[Obj], now: datetime, width: int | None) -> list[Text]:
    rows = [(name_of(one), since(created(one), now), workload_state(one)) for one in workloads]
    return table(("NAME", "AGE", "STATE"), rows, width=width) if rows else []
