"""fournos frameworks …: the kinds that are queued by configuration. Needs no cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from fournos.cli.errors import Fail
from fournos.cli.output import table
from fournos.cli.verbs import Cli, verb
from fournos.frameworks.kinds import TableError, load
from fournos.frameworks.table import FinishRule, Framework

app = typer.Typer(help="Kinds that are queued by configuration.", no_args_is_help=True)


@verb(app, "list", "ls")
def list_kinds(
    cli: Cli,
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE", help="Also those of this file, which is checked.")
    ] = "",
) -> None:
    """List the kinds that the operator queues, and how. Needs no cluster.

    \b
    fournos frameworks list
    fournos frameworks list -f samples/frameworks.yaml    before the operator gets it
    """
    try:
        found = load(file)
    except TableError as error:
        raise Fail(str(error), fix="correct the file") from None
    if cli.output.structured:
        cli.output.data({"frameworks": [one.model_dump(by_alias=True, mode="json") for one in found]})
        return
    rows = [[one.name, _held(one), _asked(one), _ended(one)] for one in found]
    header = ["KIND", "HELD BY", "ASKS FOR", "ENDS BY"]
    cli.output.lines(table(header, rows, width=cli.output.width))


def _held(one: Framework) -> str:
    return f"{one.hold.path}={_value(one.hold.held)}"


def _asked(one: Framework) -> str:
    if one.pod_sets:
        return ", ".join(rule.template for rule in one.pod_sets)
    return ", ".join(f"{name}={amount}" for name, amount in one.default_requests.items())


def _ended(one: Framework) -> str:
    def words(rule: FinishRule) -> str:
        return f"condition {rule.condition}" if rule.condition else str(rule.path)

    return ", ".join(map(words, one.finished))


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
