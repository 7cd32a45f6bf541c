"""fournos export: one job as one file."""

from __future__ import annotations

from typing import Annotated

import typer

from fournos.cli.command import Cli
from fournos.cli.errors import Fail
from fournos.cli.options import AllClustersOption, ToOption
from fournos.cli.stored import RunArgument, api_data, history_of, selected


async def export(
    cli: Cli,
    job: RunArgument,
    html: Annotated[
        bool, typer.Option("--html", help="One HTML file without scripts or links, readable offline.")
    ] = False,
    to: ToOption = None,
    all_clusters: AllClustersOption = False,
) -> None:
    """Write one job as one file: what it was, waited for, measured, and ran with; also when it is gone.

    The content of artifacts is not in it, only their names and checksums. With -o json, all of it as data.

    \b
    fournos export llama-7b --html --to llama-7b.html
    fournos export llama-7b -o json
    """
    if html == cli.output.structured:
        raise Fail("An export is either a page or data", fix="add --html, or -o json")
    if to is not None and not html:
        raise Fail("--to is for --html", fix="redirect the output: -o json > FILE")
    async with cli.session() as session:
        history = history_of(session, all_clusters=all_clusters)
        (name,) = await selected(cli, history, [job])
        exported = await history.export(name)
    if cli.output.structured:
        cli.output.data(api_data(exported))
        return
    from fournos.history.export.html import as_html

    cli.output.page(as_html(exported), to)
