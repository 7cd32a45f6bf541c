"""Groups whose commands are imported when they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer

from fournos.cli.plain_help import PlainCommand, PlainGroup, sub_app


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command or a sub-app of the program."""

    target: str
    """The module in fournos.cli and the function, or the module's `app`, such as "stop:delete"."""
    names: tuple[str, ...]
    """The name, then the hidden aliases."""
    summary: str
    """The first paragraph of its help, which the help of the program shows."""
    panel: str = "Commands"


class Placeholder(PlainCommand):
    """Stands for a command in lists of commands and in completion, until it is loaded."""

    def __init__(self, entry: CommandEntry, name: str) -> None:
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


class LazyGroup(PlainGroup):
    """The group of `entries`.  `resolve_command` is called for a command that is used, not for one listed."""

    entries: ClassVar[Sequence[CommandEntry]] = ()

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
