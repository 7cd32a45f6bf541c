"""What a measurement returns, how it is printed as tables, and where it is written."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from fournos import __version__

MB: Final = 1_000_000
_SHOWN: Final = 5
"""Of a list of texts."""
_BESIDE: Final = 4
"""So many rows are shown beside each other, a field on each line."""


@dataclass(frozen=True, slots=True)
class Target:
    what: str
    unit: str
    limit: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True, slots=True)
class Result:
    """What a part measured.  The fields of a subclass are its JSON."""

    def quotients(self) -> dict[str, float]:
        """Returns what is compared with a range: a number over that of Kueue alone, or of the load before."""
        return {}

    def wrong(self) -> dict[str, Sequence[str]]:
        """Returns the cases of each fault that must not happen."""
        return {}

    def targets(self) -> list[tuple[Target, float]]:
        """Returns the targets that were measured, with the values."""
        return []

    def ratios(self) -> dict[str, float]:
        """Returns the quotients, and how many cases each fault has, whose range is 0."""
        return {**self.quotients(), **{fault: float(len(cases)) for fault, cases in self.wrong().items()}}

    def to_json(self) -> dict[str, Any]:
        ratios = self.ratios()
        return {**asdict(self), **({"ratios": ratios} if ratios else {})}


def show(title: str, measured: Result, console: Console) -> None:
    """Prints each list of objects as a table of its own, all other fields as one, and the targets."""
    content = measured.to_json()
    lists = {name: value for name, value in content.items() if _is_table(value)}
    for name, rows in lists.items():
        lines = [(field, *(row[field] for row in rows)) for field in rows[0]]
        if len(rows) > _BESIDE:
            lines = [*zip(*lines, strict=True)]
        first, *others = ([*map(_text, line)] for line in lines)
        shown = Table(*first, title=f"{title}: {name}", title_justify="left")
        for line in others:
            shown.add_row(*line)
        console.print(shown)
    shown = Table("", "", title=title, title_justify="left")
    for name, value in content.items():
        if name not in lists:
            shown.add_row(name, _text(value))
    if shown.row_count:
        console.print(shown)
    shown = Table("", "target", "measured", "", title="Targets", title_justify="left")
    for target, value in measured.targets():
        limit = f"{'≥' if target.at_least else '≤'} {target.limit:g} {target.unit}".rstrip()
        verdict = "[green]met[/]" if target.met(value) else "[red]missed[/]"
        shown.add_row(target.what, limit, f"{value:.2f} {target.unit}".rstrip(), verdict)
    if shown.row_count:
        console.print(shown)


def _is_table(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], Mapping)


def _text(value: Any) -> str:
    match value:
        case float():
            return f"{value:.3g}" if abs(value) < MB else f"{value:,.0f}"
        case int():
            return f"{value:,}"
        case Mapping():
            return "\n".join(f"{name} {_text(each)}" for name, each in value.items())
        case list() | tuple() if value and all(isinstance(each, float | int) for each in value):
            return " ".join(map(_text, value))
        case list() | tuple():
            return ", ".join([f"{len(value)}", *map(str, value[:_SHOWN])])
    return str(value)


def surroundings() -> dict[str, Any]:
    """Returns the environment that affects the results: what the benchmark cannot change."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": __version__,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
    }


def write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
