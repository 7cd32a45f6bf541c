"""fournos run: the controllers, as the Deployment starts them."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from fournos.cli.command import Cli


def run(
    cli: Cli,
    enable: Annotated[
        list[str] | None,
        typer.Option(
            "--enable",
            metavar="SYSTEM",
            help="Systems: jobs, clusters, appwrappers, frameworks, or several with commas.",
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
