"""The common part of all commands: the common options, before or after the verb, and error handling.

A command is a function whose first parameter is a `Cli`; the other parameters are its options, declared for
typer.  It may be a coroutine function.  It returns its exit code, or None for 0, and raises `Fail` or
a FournosError.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, TypeVar, get_type_hints

import typer
from rich.text import Text

from fournos.cli.errors import Exit, Fail, from_client
from fournos.cli.options import CommonOptions, Format
from fournos.cli.output import Output
from fournos.client.asynchronous import AsyncClient
from fournos.client.connection import dial
from fournos.client.errors import FournosError, translated
from fournos.insight import source
from fournos.insight.dispatch import Dial

CliSession: TypeAlias = AsyncClient
"""What a command works with: an open connection and the effective namespace."""


@dataclass(frozen=True, slots=True)
class World:
    """The external dependencies of a command: API servers and the clock."""

    connect: Callable[..., AbstractAsyncContextManager[CliSession]] = AsyncClient
    """Connects by the values of --kubeconfig, --context and -n, for an owner."""
    dial: Dial = dial
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))


@dataclass(slots=True)
class Root:
    """The context object of the typer program.  A test passes its own, with its own `world`."""

    world: World = field(default_factory=World)
    common: CommonOptions = field(default_factory=CommonOptions)


class Cli:
    """The first argument of each command: the common options, the output and the connection."""

    def __init__(self, root: Root, common: CommonOptions) -> None:
        self.world = root.world
        self.common = common
        self.output = Output(common.output or Format.TABLE, color=False if common.no_color else None)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[CliSession]:
        """Connects to the API server.  The namespace is -n, else FOURNOS_NAMESPACE, else the context's."""
        common = self.common
        with translated():
            connection = self.world.connect(
                kubeconfig=common.kubeconfig,
                context=common.context,
                namespace=common.namespace,
                owner=self.me,
            )
            async with connection as client:
                client.now, client.dial = self.world.now, self.world.dial
                yield client

    @property
    def me(self) -> str:
        """The owner of the user's jobs (FOURNOS_OWNER); "" if it is not set."""
        return source.owner()

    @property
    def queue(self) -> str:
        """The LocalQueue of jobs that have no Workload yet."""
        return source.local_queue()


_TABLES: Final = {Format.CSV: ("compare", "usage"), Format.MARKDOWN: ("compare",)}
"""The commands whose answer may be CSV or Markdown."""
Function = TypeVar("Function", bound=Callable[..., Any])


def command_group(text: str) -> typer.Typer:
    """Returns an empty group of commands; `text` is its help."""
    return typer.Typer(help=text, no_args_is_help=True, add_completion=False)


def verb(app: typer.Typer, *names: str, panel: str = "Commands") -> Callable[[Function], Function]:
    """Registers a command under its first name, and as hidden aliases under the other names."""

    def register(function: Function) -> Function:
        for index, name in enumerate(names):
            app.command(name, rich_help_panel=panel, hidden=index > 0)(_entry(function))
        return function

    return register


def _entry(function: Callable[..., Any]) -> Callable[..., None]:
    """Returns the function that typer calls: the command's own parameters, then the common options."""
    hints = get_type_hints(function, include_extras=True)
    common = get_type_hints(CommonOptions, include_extras=True)
    own = list(inspect.signature(function).parameters.values())[1:]
    parameters = [inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    parameters += [p.replace(kind=p.KEYWORD_ONLY, annotation=hints[p.name]) for p in own]
    parameters += [
        inspect.Parameter(
            f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=common[f.name]
        )
        for f in fields(CommonOptions)
    ]

    @functools.wraps(function)
    def entry(ctx: typer.Context, **values: Any) -> None:
        root = ctx.find_object(Root) or Root()
        options = CommonOptions(**{f.name: values.pop(f.name) for f in fields(CommonOptions)})
        cli = Cli(root, options.over(root.common))
        commands = _TABLES.get(cli.output.form)
        if commands is not None and function.__name__ not in commands:
            raise typer.BadParameter(f"-o {cli.output.form} is of {', '.join(commands)} alone")
        raise typer.Exit(run(cli, functools.partial(function, cli, **values)))

    entry.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    entry.__annotations__ = {p.name: p.annotation for p in parameters}
    del entry.__wrapped__
    return entry


def run(cli: Cli, command: Callable[[], Any]) -> int:
    """Calls the command and returns its exit code.  Prints every error to stderr."""
    try:
        result = command()
        if isinstance(result, Coroutine):
            result = asyncio.run(result)
        return int(result or Exit.OK)
    except Fail as failure:
        return _report(cli, failure)
    except FournosError as error:
        return _report(cli, from_client(error))
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe.  Without this Python flushes stdout at exit and fails again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:
        if _debug():
            raise
        what = f"unexpected {type(error).__name__}: {error}"
        return _report(
            cli,
            Fail(what, fix="run it again with FOURNOS_DEBUG=1 and report what it shows", code=Exit.BUG),
        )


def _report(cli: Cli, failure: Fail) -> int:
    if _debug():
        traceback.print_exc(file=sys.stderr)
    cli.output.err.print(Text.assemble(("Error: ", "bold red"), failure.message), soft_wrap=True)
    if failure.fix:
        cli.output.err.print(Text.assemble(("  Fix: ", "bold"), failure.fix), soft_wrap=True)
    return failure.code


def _debug() -> bool:
    return os.environ.get("FOURNOS_DEBUG", "") not in ("", "0")
