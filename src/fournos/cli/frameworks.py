"""fournos frameworks …: the kinds that are queued by configuration, and why one of their objects waits."""

from __future__ import annotations

from typing import Annotated

import typer

from fournos.cli.command import Cli, command_group, verb
from fournos.cli.explain import show_explanation
from fournos.insight.frameworks import explain, find_object, gather, kinds_of, phase, row_of

app = command_group("Kinds that are queued by configuration.")


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
    kinds = kinds_of(file)
    data = {"frameworks": [one.model_dump(by_alias=True, mode="json") for one in kinds]}
    header = ["KIND", "HELD BY", "ASKS FOR", "ENDS BY"]
    cli.output.answer(data, header, [row_of(one) for one in kinds])


@verb(app, "explain", "why")
async def explain_object(
    cli: Cli,
    name: Annotated[
        str,
        typer.Argument(
            metavar="[KIND/]NAME",
            help="Name of the object; the kind where several have one of that name.",
            show_default=False,
        ),
    ],
    file: Annotated[
        str,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            envvar="FOURNOS_FRAMEWORKS_FILE",
            help="The operator's file of kinds.",
        ),
    ] = "",
) -> None:
    """Say why an object of such a kind waits, what its queue says of it, and what follows.

    \b
    fournos frameworks explain build-x7k2m
    fournos frameworks explain foo/mine -f samples/frameworks.yaml
    """
    kinds = kinds_of(file)
    async with cli.session() as session:
        framework, obj = await find_object(session.api, session.namespace, kinds, name)
        found = await gather(session.api, framework, obj)
    show_explanation(cli, {**obj, "status": {"phase": phase(found)}}, explain(found))
