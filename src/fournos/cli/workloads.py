"""fournos appwrapper …, minicluster … and wrap: resources that are queued as one, and Flux clusters.

Why one waits, with its parts: `fournos explain appwrapper/NAME`, `fournos explain minicluster/NAME`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

import typer
import yaml
from rich.text import Text

from fournos.api.kinds import APPWRAPPER, MINICLUSTER, Resource
from fournos.cli.command import Cli, command_group, verb
from fournos.cli.errors import Fail
from fournos.cli.find import find_of_kind, name_argument
from fournos.cli.list import EverywhereOption, ListTable, SelectorOption, show_list
from fournos.cli.logs import Printer, show
from fournos.cli.output import phase_text
from fournos.cli.submit import read
from fournos.client.logs import container_lines
from fournos.client.workloads import AsyncMiniCluster
from fournos.insight import appwrappers, miniclusters
from fournos.insight.manifests import documents
from fournos.insight.quota import priority_class, queue_name
from fournos.insight.values import (
    Obj,
    between,
    created,
    name_of,
    one_line,
    phase_of,
    since,
    spec_of,
    status_of,
)

appwrapper_app = command_group("AppWrappers: resources that Kueue admits, and that end, as one.")
minicluster_app = command_group("MiniClusters: Flux clusters in the pods of a Job.")

PhaseOption = Annotated[
    list[str] | None,
    typer.Option("--phase", metavar="PHASE", help="Only those in this phase, such as Running; repeat it."),
]
NameArgument = Annotated[str, name_argument(MINICLUSTER)]


# --- lists -----------------------------------------------------------------------------------------------


def _list_command(
    app: typer.Typer, resource: Resource, shown_as: ListTable, phase: Callable[[Obj], str], wide: str
) -> None:
    """Adds the command that lists the objects of a kind; `wide` is what its wide form adds."""

    async def listed(
        cli: Cli,
        phases: PhaseOption = None,
        selector: SelectorOption = "",
        everywhere: EverywhereOption = False,
    ) -> None:
        await show_list(
            cli, resource, shown_as, phase, phases=phases, selector=selector, everywhere=everywhere
        )

    command = f"fournos {resource.kind.lower()} list"
    listed.__doc__ = f"List {resource.kind}s, newest first.\n\n\b\n{command}\n{command} -A -o wide    {wide}"
    verb(app, "list", "ls")(listed)


def _wrapper_row(wrapper: Obj, now: datetime, wide: bool) -> list[str | Text]:
    row: list[str | Text] = [
        name_of(wrapper),
        phase_text(phase_of(wrapper)),
        queue_name(wrapper) or "-",
        ", ".join(appwrappers.kinds(wrapper)),
        since(created(wrapper), now),
    ]
    if wide:
        row += [
            appwrappers.user_of(wrapper) or "-",
            priority_class(wrapper) or "-",
            str(appwrappers.resets(wrapper)),
        ]
    return [*row, appwrappers.why(wrapper)]


def _minicluster_row(minicluster: Obj, now: datetime, wide: bool) -> list[str | Text]:
    status = status_of(minicluster)
    code = status.get("exitCode")
    row: list[str | Text] = [
        name_of(minicluster),
        phase_text(miniclusters.phase_of(minicluster)),
        str(spec_of(minicluster).get("size", 1)),
        str(status.get("ready") or 0),
        "-" if code is None else str(code),
        since(created(minicluster), now),
        between(status.get("startedAt"), status.get("finishedAt"), now),
    ]
    if wide:
        row += [str(status.get("maximumSize") or "-"), queue_name(minicluster) or "-"]
    return [*row, one_line(status.get("message"))]


_list_command(
    appwrapper_app,
    APPWRAPPER,
    ListTable(("NAME", "PHASE", "QUEUE", "COMPONENTS", "AGE"), ("USER", "PRIORITY", "RESETS"), _wrapper_row),
    phase_of,
    "users, priorities, tries",
)
_list_command(
    minicluster_app,
    MINICLUSTER,
    ListTable(("NAME", "PHASE", "SIZE", "READY", "EXIT", "AGE", "RAN"), ("MAX", "QUEUE"), _minicluster_row),
    miniclusters.phase_of,
    "queues and largest sizes",
)


# --- wrap ------------------------------------------------------------------------------------------------


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
    wrapper = appwrappers.wrapped(manifests, name=name, namespace=cli.common.namespace, queue=queue)
    cli.output.text(yaml.safe_dump(wrapper, sort_keys=False))
    return 0


# --- MiniClusters ----------------------------------------------------------------------------------------


@verb(minicluster_app, "logs", "log")
async def logs(
    cli: Cli,
    name: NameArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as lines come, until the pod ends.")
    ] = False,
    rank: Annotated[
        int, typer.Option("--rank", "-r", metavar="N", min=0, help="Of this broker; 0 is the lead.")
    ] = 0,
    container: Annotated[
        str | None,
        typer.Option("--container", "-c", metavar="NAME", help="Default: the one that runs Flux."),
    ] = None,
    tail: Annotated[
        int | None, typer.Option("--tail", metavar="N", min=0, help="Only the last N lines.")
    ] = None,
) -> None:
    """Print what the lead broker, or another rank, has printed.

    \b
    fournos minicluster logs flux-sample
    fournos minicluster logs -f flux-sample --rank 1
    """
    async with cli.session() as session:
        minicluster = await find_of_kind(session, MINICLUSTER, name)
        source = miniclusters.log_source(
            minicluster, await miniclusters.pods(session.api, minicluster), rank=rank, container=container
        )
        if not await show(container_lines(session.api, source, tail, follow=follow), Printer(cli)):
            cli.output.hint("No lines: the container has printed nothing, or has not begun.")


# --- scale -----------------------------------------------------------------------------------------------


@verb(minicluster_app, "scale")
async def scale(
    cli: Cli,
    name: NameArgument,
    size: Annotated[int, typer.Argument(metavar="SIZE", min=1, help="Number of pods.", show_default=False)],
) -> None:
    """Change the number of pods. Those that are taken away let their tasks end first.

    \b
    fournos minicluster scale flux-sample 4
    """
    async with cli.session() as session:
        minicluster = AsyncMiniCluster(session, await find_of_kind(session, MINICLUSTER, name))
        await minicluster.scale(size, timeout=0)
    shown = minicluster.name
    cli.output.say(f"{shown}: {size} pods asked for. See how far it is: fournos explain minicluster/{shown}")


@verb(minicluster_app, "render")
def render(
    cli: Cli,
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE", help="The manifest; - is standard input.")
    ],
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
            metavar="KEY",
            help="Print one file of the entrypoint ConfigMap, such as wait-0, broker.toml or hostlist.",
        ),
    ] = None,
    certificate: Annotated[
        bool,
        typer.Option("--certificate", help="Make a certificate, so that what is printed can be applied."),
    ] = False,
) -> int:
    """Print what a MiniCluster is made of, after the same checks as the API server's. Needs no cluster.

    \b
    fournos minicluster render -f minicluster.yaml
    fournos minicluster render -f minicluster.yaml --only wait-0
    """
    minicluster = _read(file, cli.common.namespace)
    if only is not None:
        script = miniclusters.entrypoint_file(minicluster, only)
        cli.output.text(script if script.endswith("\n") else f"{script}\n")
        return 0
    objects = miniclusters.objects_of(minicluster, certificate=certificate)
    cli.output.text("---\n".join(map(_yaml, objects)))
    return 0


def _read(path: str, namespace: str | None) -> dict[str, Any]:
    """Returns the only MiniCluster of a file.  Raises Fail, or ManifestError if it would be refused."""
    manifests = [one for one in documents(read(path), path) if one.get("kind") == MINICLUSTER.kind]
    if len(manifests) != 1:
        raise Fail(f"{path} holds {len(manifests)} MiniClusters", fix="name a file with exactly one")
    minicluster = manifests[0]
    miniclusters.accepted(minicluster, path)
    if namespace:
        minicluster["metadata"]["namespace"] = namespace
    return minicluster


class _Dumper(yaml.SafeDumper):
    """Writes strings of several lines as literal blocks, and no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def _yaml(obj: Obj | str) -> str:
    return str(yaml.dump(obj, Dumper=_Dumper, sort_keys=False, width=110))
