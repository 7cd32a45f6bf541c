"""Commands and groups whose help is in plain sections.

The help is written without rich, whose import takes longer than all the rest of `fournos --help`.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_ARGUMENTS = "Arguments"
_OPTIONS = "Options"


class PlainCommand(TyperCommand):
    """A command whose help has a section for each panel of options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)


class PlainGroup(TyperGroup):
    """A group whose help lists the commands in a section for each panel, before the options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if not command.hidden:
                panel = command.rich_help_panel or "Commands"
                panels.setdefault(panel, []).append((name, summary_of(command.help)))
        _write(formatter, panels)
        _write_options(self, ctx, formatter)


def sub_app() -> typer.Typer:
    """Returns an empty app for a module's commands."""
    return typer.Typer(cls=PlainGroup, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


def summary_of(text: str | None) -> str:
    """The first paragraph of a docstring or help text, on one line."""
    return " ".join((text or "").strip().partition("\n\n")[0].split())


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    panels: dict[str, list[tuple[str, str]]] = {_ARGUMENTS: [], _OPTIONS: []}
    for parameter in command.get_params(ctx):
        default = _ARGUMENTS if parameter.param_type_name == "argument" else _OPTIONS
        if record := parameter.get_help_record(ctx):
            panels.setdefault(getattr(parameter, "rich_help_panel", None) or default, []).append(record)
    _write(formatter, panels)


def _write(formatter: Any, panels: dict[str, list[tuple[str, str]]]) -> None:
    for panel, rows in panels.items():
        if rows:
            with formatter.section(panel):
                formatter.write_dl(rows)
