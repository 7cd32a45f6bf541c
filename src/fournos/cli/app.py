"""Assembles the program from its commands.  A sub-app is one line in `SUB_APPS`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import typer

from fournos.cli import (
    about,
    again,
    appwrapper,
    cluster,
    compare,
    dispatch,
    explain,
    frameworks,
    get,
    logs,
    minicluster,
    queue,
    run,
    stop,
    submit,
    watch,
    wrap,
)
from fournos.cli import list as list_
from fournos.cli.command import (
    Common,
    ContextOption,
    FormatOption,
    KubeconfigOption,
    NamespaceOption,
    NoColorOption,
    Root,
)
from fournos.cli.errors import MEANINGS

EXAMPLES: Final = (
    ("fournos submit -f job.yaml --watch", "submit a job and follow it to its end"),
    ("fournos list --phase active", "what is under way"),
    ("fournos explain @last", "why the newest job waits, and what to do"),
    ("fournos logs -f @last", "what its tasks print, as they run"),
    ("fournos stop @last", "end it; its finally tasks still run"),
)

SUB_APPS: Final[dict[str, typer.Typer]] = {
    "cluster": cluster.app,
    "dispatch": dispatch.app,
    "appwrapper": appwrapper.app,
    "minicluster": minicluster.app,
    "frameworks": frameworks.app,
}
"""Name → sub-app, such as "cluster" → the app of `fournos cluster …`."""


def epilog() -> str:
    r"""Returns the examples and exit codes.  The mark \b keeps typer from joining the lines."""
    width = max(len(command) for command, _ in EXAMPLES)
    examples = [f"  {command.ljust(width)}   {text}" for command, text in EXAMPLES]
    codes = [f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(["\b", "Examples:", *examples, "Exit codes:", *codes])


def build() -> typer.Typer:
    app = typer.Typer(
        name="fournos",
        help="Queue benchmark jobs, find them a cluster, run them there and report back.",
        epilog=epilog(),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode="rich",
    )
    app.callback()(_options)
    for module in (submit, list_, get, explain, watch, logs, stop, again, compare, queue, wrap, run, about):
        module.install(app)
    for name, sub_app in SUB_APPS.items():
        app.add_typer(sub_app, name=name)
    return app


def _options(
    ctx: typer.Context,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: FormatOption = None,
    no_color: NoColorOption = False,
) -> None:
    root = ctx.ensure_object(Root)
    common = Common(
        namespace=namespace, kubeconfig=kubeconfig, context=context, output=output, no_color=no_color
    )
    ctx.obj = replace(root, common=common)
