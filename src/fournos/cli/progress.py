"""Renders the phases and tasks of a job as lines."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from rich.text import Text

from fournos.cli.formatting import phase_style, phase_text
from fournos.insight.children import CANCELLED, FAILED, RUNNING, SKIPPED, SUCCEEDED, WAITING, Task
from fournos.insight.values import Obj, between, name_of, one_line, phase_of, short, status_of, timeline

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
