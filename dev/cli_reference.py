"""The reference page of the command line, made of the program itself when the site is built.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import typer

from fournos.cli.app import EXAMPLES, build
from fournos.cli.errors import MEANINGS
from fournos.cli.options import PANEL


def page() -> str:
    """Returns Markdown: each command with its arguments and options, the common options, the exit codes."""
    program: Any = typer.main.get_command(build())
    parts = [
        f"{program.help}\n",
        "```\n" + "\n".join(f"{command:<40} {text}" for command, text in EXAMPLES) + "\n```\n",
        "A command takes these options too, before or after its name:\n",
        _table(("Option", "Meaning"), _options(program.params)),
    ]
    parts += _commands(program, "fournos")
    codes = [(f"`{code.value}`", meaning) for code, meaning in MEANINGS.items()]
    parts += ["## Exit codes\n", _table(("Code", "Meaning"), codes)]
    variables = (
        ("`FOURNOS_NAMESPACE`", "the namespace, where `-n` does not say it"),
        ("`FOURNOS_OWNER`", "you: whose newest job `@last` is, and the owner of what you submit"),
        ("`FOURNOS_KUEUE_LOCAL_QUEUE_NAME`", "the LocalQueue that `explain` looks at before a job is queued"),
        ("`FOURNOS_DEBUG`", "`1` shows tracebacks"),
        ("`KUBECONFIG`", "kubeconfigs, as for kubectl"),
        ("`NO_COLOR`", "any value: no colours"),
    )
    parts += ["## Environment\n", _table(("Variable", "Meaning"), variables)]
    return "\n".join(parts)


def _commands(group: Any, path: str) -> Iterator[str]:
    aliases: dict[Any, list[str]] = {}
    commands = group.commands
    for name, command in commands.items():
        if command.hidden:
            aliases.setdefault(command.help, []).append(name)
    for name, command in commands.items():
        if command.hidden:
            continue
        if hasattr(command, "commands"):
            yield from _commands(command, f"{path} {name}")
            continue
        arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
        usage = " ".join([f"{path} {name}", *(_metavar(argument) for argument in arguments)])
        yield f"## {usage}\n"
        prose, _, examples = (command.help or "").partition("\b")
        yield f"{' '.join(prose.split())}\n"
        if also := aliases.get(command.help):
            yield f"Also: {', '.join(f'`{path} {alias}`' for alias in also)}.\n"
        if examples.strip():
            yield "```\n" + examples.strip("\n") + "\n```\n"
        rows = [(f"`{_metavar(argument)}`", argument.help or "") for argument in arguments]
        own = [p for p in command.params if getattr(p, "rich_help_panel", None) != PANEL]
        if rows := [*rows, *_options(own)]:
            yield _table(("Option", "Meaning"), rows)


def _metavar(argument: Any) -> str:
    if argument.metavar:
        return str(argument.metavar)
    choices = getattr(argument.get_runtime_param(), "choices", None)
    return "|".join(map(str, choices)) if choices else str(argument.name).upper()


def _options(parameters: Sequence[Any]) -> list[tuple[str, str]]:
    rows = []
    for option in parameters:
        if option.param_type_name != "option" or option.name in ("install_completion", "show_completion"):
            continue
        names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len))
        value = f" {option.metavar}" if option.metavar and not option.is_flag else ""
        default = option.default
        shown = isinstance(default, int) and not isinstance(default, bool) and default != 0
        text = f"{option.help} Default: {default}." if shown else option.help
        variable = f" Variable: `{option.envvar}`." if option.envvar else ""
        rows.append((names + value, f"{text}{variable}"))
    return rows


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
