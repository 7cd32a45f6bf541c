"""fournos wrap: builds an AppWrapper from plain manifests and prints it."""

from __future__ import annotations

from typing import Annotated

import typer
import yaml

from fournos.cli.command import Cli
from fournos.cli.errors import Fail
from fournos.cli.manifest import read
from fournos.insight.appwrappers import wrapped
from fournos.insight.manifests import documents


def wrap(
    cli: Cli,
    files: Annotated[
        list[str],
        typer.Option("--file", "-f", metavar="FILE", help="Manifests of any kind; - is standard input."),
    ],
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Its name; default: that of the first resource."),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", "-q", metavar="NAME", help="Its LocalQueue; default: the manifests' own."),
    ] = None,
) -> int:
    """Wrap manifests into one AppWrapper, which Kueue admits and which ends as one. Needs no cluster.

    \b
    fournos wrap -f pod.yaml -f service.yaml --queue user-queue | kubectl apply -f -
    """
    manifests = [document for file in files for document in documents(read(file), file)]
    if not manifests:
        raise Fail("there is no manifest in these files", fix="name a file with at least one")
    wrapper = wrapped(manifests, name=name, namespace=cli.common.namespace, queue=queue)
    typer.echo(yaml.safe_dump(wrapper, sort_keys=False), nl=False)
    return 0
