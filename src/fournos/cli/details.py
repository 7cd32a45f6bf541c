"""The parts of a command that shows one object: facts, sections, tables of conditions and Workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from rich.text import Text

from fournos.cli.output import table
from fournos.cli.progress import headline
from fournos.insight.values import (
    Obj,
    conditions_of,
    created,
    name_of,
    one_line,
    pod_phase,
    since,
    spec_of,
    workload_state,
)


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


def pod_table(
    pods: Iterable[Obj], now: datetime, width: int | None, *, rank_of: Callable[[Obj], str] | None = None
) -> list[Text]:
    """`rank_of`: the rank of each pod is the first column."""
    rows = [
        (
            *((rank_of(pod) or "services",) if rank_of else ()),
            name_of(pod),
            since(created(pod), now),
            pod_phase(pod).lower(),
            str(spec_of(pod).get("nodeName") or "-"),
        )
        for pod in pods
    ]
    header = (*(("RANK",) if rank_of else ()), "NAME", "AGE", "STATE", "NODE")
    return table(header, rows, width=width) if rows else []


def steps_table(steps: Sequence[tuple[str, str]]) -> list[Text]:
    """Returns commands, each with what it does."""
    width = max(len(command) for command, _ in steps)
    return [Text.assemble(f"{command:<{width}}   ", (text, "dim")) for command, text in steps]


def workload_table(workloads: Iterable[Obj], now: datetime, width: int | None) -> list[Text]:
    rows = [(name_of(one), since(created(one), now), workload_state(one)) for one in workloads]
    return table(("NAME", "AGE", "STATE"), rows, width=width) if rows else []
