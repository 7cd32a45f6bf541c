"""fournos run, web and doctor."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Sequence
from typing import Annotated, Final, cast

import typer
from rich.text import Text

from fournos.cli.command import Cli
from fournos.cli.errors import Exit, Fail
from fournos.cli.output import table
from fournos.extras import remedy
from fournos.insight.doctor import examine
from fournos.insight.doctor_access import DoctorFinding, DoctorServer, ExaminedNamespaces, Level, faults
from fournos.insight.source import clusters_namespace
from fournos.insight.values import count

SYSTEMS: Final = (
    "jobs",
    "schedules",
    "clusters",
    "appwrappers",
    "frameworks",
    "multikueue",
    "miniclusters",
    "history",
    "web",
)
"""The parts of `fournos run`: their module is imported by that command alone."""


def run(
    cli: Cli,
    enable: Annotated[
        list[str] | None,
        typer.Option(
            "--enable",
            metavar="SYSTEM",
            help=f"Systems: {', '.join(SYSTEMS)}; several with commas.",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, help="Objects worked on at the same time.")
    ] = 8,
    health_port: Annotated[
        int,
        typer.Option(
            "--health-port",
            metavar="PORT",
            min=0,
            max=65535,
            help="Port of /healthz and /readyz.",
        ),
    ] = 8080,
    webhook_url: Annotated[
        str,
        typer.Option(
            "--webhook-url",
            metavar="URL",
            help="Serve the admission webhooks; the API server reaches this process at https://HOST:9443.",
        ),
    ] = "",
) -> int:
    """Run the operator. It is configured by FOURNOS_… variables; FOURNOS_NAMESPACE, or -n, is required.
    For clusters it is HEARTH_… variables, and none is required.

    \b
    FOURNOS_NAMESPACE=fournos-dev fournos run
    fournos run -n fournos-dev --health-port 8081
    fournos run --enable clusters
    """
    # Imported here: its libraries would slow down every other command.
    from fournos.app.run import main

    if cli.common.namespace:
        os.environ["FOURNOS_NAMESPACE"] = cli.common.namespace
    return main(
        enable=tuple(enable or ("jobs",)),
        workers=workers,
        health_port=health_port,
        kubeconfig=cli.common.kubeconfig,
        context=cli.common.context,
        webhook_url=webhook_url,
    )


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


_STYLES: Final = {Level.OK: "green", Level.UNKNOWN: "dim", Level.WARNING: "yellow", Level.FAULT: "bold red"}


async def doctor(cli: Cli) -> int:
    """Look for what keeps jobs from running: versions, CRDs, queues, rights, webhooks, operator, history.

    Each fault is printed with its fix. Exit code 1 if there is a fault; a warning is none. What you may not
    read is "unknown". Nothing is changed.

    \b
    fournos doctor
    fournos doctor -n team -o json
    """
    async with cli.session() as session:
        place = ExaminedNamespaces(session.namespace, clusters_namespace(), cli.queue)
        # The connection of a command is a Client, which has more operations than an Api.
        findings = await examine(cast(DoctorServer, session.api), place, cli.world.now(), session.dial)
    wrong = faults(findings)
    if cli.output.structured:
        cli.output.data([one.as_data() for one in findings])
    else:
        cli.output.lines(view(findings, width=cli.output.width))
        cli.output.hint(f"{count(wrong, 'fault')}, {count(len(findings), 'check')}.")
    return Exit.FAILED if wrong else Exit.OK


def view(findings: Sequence[DoctorFinding], *, width: int | None) -> list[Text]:
    """Returns the findings as a table, each fault and warning with its fix below."""
    rows = [
        (one.area, one.what, Text(one.level.value, style=_STYLES[one.level]), one.text) for one in findings
    ]
    head, *lines = table(("AREA", "WHAT", "STATE", "DETAIL"), rows, width=width)
    result = [head]
    for finding, line in zip(findings, lines, strict=True):
        result.append(line)
        if finding.fix:
            result.append(Text.assemble(("  Fix: ", "bold"), finding.fix))
    return result
