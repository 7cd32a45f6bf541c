"""The program: its commands, its examples and its common options.  A command is a line in `COMMANDS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

import typer

from fournos import __version__
from fournos.api.kinds import FOURNOS_JOB
from fournos.cli import (
    cluster,
    history,
    init,
    results,
    schedule,
)
from fournos.cli.again import matrix, retry
from fournos.cli.benchmarks import acknowledge_app, baseline_app, benchmarks
from fournos.cli.command import Root, verb
from fournos.cli.compare_runs import compare, trend
from fournos.cli.errors import MEANINGS
from fournos.cli.explain import estimate, explain_object, queue
from fournos.cli.get import get
from fournos.cli.history import usage
from fournos.cli.list import list_jobs
from fournos.cli.logs import logs
from fournos.cli.operate import doctor, run, web
from fournos.cli.options import (
    CommonOptions,
    ContextOption,
    FormatOption,
    KubeconfigOption,
    NamespaceOption,
    NoColorOption,
)
from fournos.cli.stop import delete, hold, release, stop
from fournos.cli.submit import submit
from fournos.cli.watch import wait, watch
from fournos.cli.workloads import appwrapper_app, minicluster_app, wrap

EXAMPLES: Final = (
    ("fournos submit -f job.yaml --watch", "submit a job and follow it to its end"),
    ("fournos list --phase active", "what is under way"),
    ("fournos explain @last", "why the newest job waits, and what to do"),
    ("fournos logs -f @last", "what its tasks print, as they run"),
    ("fournos stop @last", "end it; its finally tasks still run"),
)

VERSION: Final = f"fournos {__version__} ({FOURNOS_JOB.api_version})"

COMMANDS: Final[Sequence[tuple[typer.Typer | Callable[..., Any], tuple[str, ...], str]]] = (
    (submit, ("submit", "create"), "Commands"),
    (list_jobs, ("list", "ls"), "Commands"),
    (get, ("get", "show"), "Commands"),
    (explain_object, ("explain", "why"), "Commands"),
    (watch, ("watch",), "Commands"),
    (wait, ("wait",), "Commands"),
    (logs, ("logs", "log"), "Commands"),
    (stop, ("stop",), "Commands"),
    (hold, ("hold",), "Commands"),
    (release, ("release",), "Commands"),
    (delete, ("delete", "rm"), "Commands"),
    (retry, ("retry",), "Commands"),
    (matrix, ("matrix",), "Commands"),
    (schedule.app, ("schedule",), "Commands"),
    (queue, ("queue",), "Commands"),
    (estimate, ("estimate",), "Commands"),
    (web, ("web",), "Commands"),
    (cluster.app, ("cluster",), "Commands"),
    (appwrapper_app, ("appwrapper",), "Commands"),
    (minicluster_app, ("minicluster",), "Commands"),
    (compare, ("compare",), "Commands"),
    (init.app, ("init",), "Commands"),
    (benchmarks, ("benchmarks",), "Commands"),
    (trend, ("trend",), "Commands"),
    (usage, ("usage",), "Commands"),
    (baseline_app, ("baseline",), "Commands"),
    (acknowledge_app, ("acknowledge",), "Commands"),
    (results.app, ("results",), "Commands"),
    (results.artifacts_app, ("artifacts",), "Commands"),
    (history.app, ("history",), "Operate"),
    (wrap, ("wrap",), "Commands"),
    (doctor, ("doctor",), "Operate"),
    (run, ("run",), "Operate"),
)
"""Each command or group with its name, the hidden other names, and its panel of the help."""


def epilog() -> str:
    r"""Returns the examples and exit codes.  The mark \b keeps typer from joining the lines."""
    width = max(len(command) for command, _ in EXAMPLES)
    examples = [f"  {command.ljust(width)}   {text}" for command, text in EXAMPLES]
    codes = [f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(["\b", "Examples:", *examples, "", "\b", "Exit codes:", *codes])


def build() -> typer.Typer:
    app = typer.Typer(
        name="fournos",
        help="Queue benchmark jobs, find them a cluster, run them there and report back.",
        epilog=epilog(),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(_options)
    for command, names, panel in COMMANDS:
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=names[0], rich_help_panel=panel)
        else:
            verb(app, *names, panel=panel)(command)
    return app


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(VERSION)
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option(
        "--version",
        is_eager=True,
        callback=_show_version,
        help="Show the version of this program and of the API that it speaks.",
    ),
]


def _options(
    ctx: typer.Context,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: FormatOption = None,
    no_color: NoColorOption = False,
    version: VersionOption = False,
) -> None:
    root = ctx.ensure_object(Root)
    common = CommonOptions(
        namespace=namespace, kubeconfig=kubeconfig, context=context, output=output, no_color=no_color
    )
    ctx.obj = replace(root, common=common)
