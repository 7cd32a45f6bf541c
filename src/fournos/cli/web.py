"""fournos web: the page, with the caller's own rights."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from fournos.cli.command import Cli
from fournos.cli.errors import Fail
from fournos.extras import remedy
from fournos.insight.source import clusters_namespace


async def web(
    cli: Cli,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="The port; 0: a free one.")
    ] = 8470,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in the browser.")] = True,
) -> None:
    """Open the page in a browser: the fleet, the queue, runs with their logs and results.

    It is served on this machine only, with your own kubeconfig and rights; the printed address holds a token,
    and whoever knows it acts as you. Ctrl-C ends it.

    \b
    fournos web
    fournos web -n team --no-browser
    """
    try:
        # Imported here: the page needs the packages of the extra `web`.
        from fournos.web.local import LocalOptions, serve
    except ModuleNotFoundError as error:
        raise Fail(f"the page needs {error.name}, which is not installed", fix=remedy("web")) from error

    def opened(address: str) -> None:
        cli.output.say(address)
        if browser and cli.output.interactive:
            webbrowser.open(address)

    async with cli.session() as session:
        clusters = clusters_namespace()
        options = LocalOptions(session.namespace, clusters, port, owner=cli.me)
        await serve(session.api, options, opened)
