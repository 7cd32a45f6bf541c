"""Groups whose commands are imported when they are called, and help in plain sections.

The help is written without rich, whose import takes longer than all the rest of `fournos --help`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

_ARGUMENTS = "Arguments"
_OPTIONS = "Options"


@dataclass(frozen=True, slots=True)
class Entry:
    """A command or a sub-app of the program."""

    target: str
    """The module in fournos.cli and the function, or the module's `app`, such as "stop:delete"."""
    names: tuple[str, ...]
    """The name, then the hidden aliases."""
    summary: str
    """The first paragraph of its help, which the help of the program shows."""
    panel: str = "Commands"


class Command(TyperCommand):
    """A command whose help has a section for each panel of options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)


class Group(TyperGroup):
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


class Placeholder(Command):
    """Stands for a command in lists of commands and in completion, until it is loaded."""

    def __init__(self, entry: Entry, name: str) -> None:
        hidden = name != entry.names[0]
        super().__init__(name, help=entry.summary, hidden=hidden, rich_help_panel=entry.panel)
        self._entry = entry

    def load(self) -> Any:
        """Imports the module and returns the command or group."""
        from fournos.cli.command import verb

        module, _, attribute = self._entry.target.partition(":")
        target = getattr(import_module(f"fournos.cli.{module}"), attribute)
        if isinstance(target, typer.Typer):
            group = typer.main.get_group(target)
            group.name, group.help = self.name, self._entry.summary
            return group
        app = sub_app()
        verb(app, str(self.name))(target)
        command: Any = typer.main.get_command(app)
        command.hidden = self.hidden
        return command


class LazyGroup(Group):
    """The group of `entries`.  `resolve_command` is called for a command that is used, not for one listed."""

    entries: ClassVar[Sequence[Entry]] = ()

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for entry in self.entries:
            for name in entry.names:
                self.add_command(Placeholder(entry, name))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, loaded(command), rest


def loaded(command: Any) -> Any:
    """Returns the command itself for a Placeholder."""
    return command.load() if isinstance(command, Placeholder) else command


def sub_app() -> typer.Typer:
    """Returns an empty app for a module's commands."""
    return typer.Typer(cls=Group, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


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
