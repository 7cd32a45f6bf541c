"""fournos minicluster …: Flux clusters."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import typer
import yaml
from rich.text import Text

from fournos.api.kinds import MINICLUSTER
from fournos.cli.command import Cli, command_group, verb
from fournos.cli.errors import Fail
from fournos.cli.find import find_of_kind, name_argument
from fournos.cli.list import EverywhereOption, ListTable, SelectorOption, show_list
from fournos.cli.logs import Printer, show
from fournos.cli.output import condition_table, created_fact, details, phase_text, pod_table, workload_table
from fournos.cli.submit import read
from fournos.client.logs import container_lines
from fournos.client.workloads import AsyncMiniCluster
from fournos.engine.api.values import escaped
from fournos.insight.manifests import documents
from fournos.insight.miniclusters import (
    accepted,
    entrypoint_file,
    log_source,
    objects_of,
    phase_of,
    pods,
    rank_of,
    workloads,
)
from fournos.insight.quota import queue_name
from fournos.insight.values import Obj, between, created, key_of, name_of, one_line, since, spec_of, status_of

app = command_group("MiniClusters: Flux clusters in the pods of a Job.")

NameArgument = Annotated[str, name_argument(MINICLUSTER)]


# --- list ------------------------------------------------------------------------------------------------


@verb(app, "list", "ls")
async def list_miniclusters(
    cli: Cli,
    phase: Annotated[
        list[str] | None,
        typer.Option("--phase", metavar="PHASE", help="Only those in this phase, such as Ready; repeat it."),
    ] = None,
    selector: SelectorOption = "",
    everywhere: EverywhereOption = False,
) -> None:
    """List MiniClusters, newest first.

    \b
    fournos minicluster list
    fournos minicluster list -A --phase Ready -o wide     queues and largest sizes
    """
    await show_list(
        cli, MINICLUSTER, _TABLE, phase_of, phases=phase, selector=selector, everywhere=everywhere
    )


def _row(minicluster: Obj, now: datetime, wide: bool) -> list[str | Text]:
    status = status_of(minicluster)
    code = status.get("exitCode")
    row: list[str | Text] = [
        name_of(minicluster),
        phase_text(phase_of(minicluster)),
        str(spec_of(minicluster).get("size", 1)),
        str(status.get("ready") or 0),
        "-" if code is None else str(code),
        since(created(minicluster), now),
        between(status.get("startedAt"), status.get("finishedAt"), now),
    ]
    if wide:
        row += [str(status.get("maximumSize") or "-"), queue_name(minicluster) or "-"]
    return [*row, one_line(status.get("message"))]


_TABLE: Final = ListTable(("NAME", "PHASE", "SIZE", "READY", "EXIT", "AGE", "RAN"), ("MAX", "QUEUE"), _row)


# --- get -------------------------------------------------------------------------------------------------


@verb(app, "get", "show")
async def get(cli: Cli, name: NameArgument) -> None:
    """Show one: its size, its result, its conditions, its pods by rank.

    \b
    fournos minicluster get flux-sample
    fournos minicluster get flux-sample -o yaml
    """
    async with cli.session() as session:
        minicluster = await find_of_kind(session, MINICLUSTER, name)
        if cli.output.objects(MINICLUSTER, [minicluster], single=True):
            return
        found = await pods(session.api, minicluster)
        queued = await workloads(session.api, minicluster)
    cli.output.lines(detail(minicluster, found, queued, cli.world.now(), width=cli.output.width))


def detail(
    minicluster: Obj,
    members: Sequence[Obj],
    queued: Sequence[Obj],
    now: datetime,
    *,
    width: int | None,
) -> list[Text]:
    spec, status = spec_of(minicluster), status_of(minicluster)
    code, largest = status.get("exitCode"), status.get("maximumSize")
    facts = [
        ("Namespace", key_of(minicluster).namespace),
        ("Size", f"{spec.get('size', 1)}" + (f" of at most {largest}" if largest else "")),
        ("Ready", status.get("ready")),
        ("Exit code", None if code is None else str(code)),
        ("Queue", queue_name(minicluster)),
        ("Managed by", spec.get("managedBy")),
        ("Created", created_fact(minicluster, now)),
        ("Ran", between(status.get("startedAt"), status.get("finishedAt"), now)),
        ("Message", one_line(status.get("message"))),
    ]
    inner = width and width - 2
    sections = (
        ("Conditions", condition_table(minicluster, now, width)),
        ("Workloads", workload_table(queued, now, inner)),
        ("Pods", pod_table(members, now, inner, rank_of=rank_of)),
        ("Next", _next(minicluster)),
    )
    return details(minicluster, facts, sections)


def _next(minicluster: Obj) -> list[Text]:
    name = name_of(minicluster)
    commands = [f"fournos minicluster logs {name}"]
    if phase_of(minicluster) != "Finished":
        commands = [f"fournos minicluster logs -f {name}", f"fournos minicluster scale {name} SIZE"]
    return [Text(command) for command in commands]


# --- logs ------------------------------------------------------------------------------------------------


@verb(app, "logs", "log")
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
        source = log_source(minicluster, await pods(session.api, minicluster), rank=rank, container=container)
        if not await show(container_lines(session.api, source, tail, follow=follow), Printer(cli)):
            cli.output.hint("No lines: the container has printed nothing, or has not begun.")


# --- scale -----------------------------------------------------------------------------------------------


@verb(app, "scale")
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
    cli.output.say(f"{shown}: {size} pods asked for. See how far it is: fournos minicluster get {shown}")


@verb(app, "render")
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
        script = entrypoint_file(minicluster, only)
        typer.echo(escaped(script) if sys.stdout.isatty() else script, nl=not script.endswith("\n"))
        return 0
    typer.echo("---\n".join(map(_yaml, objects_of(minicluster, certificate=certificate))), nl=False)
    return 0


def _read(path: str, namespace: str | None) -> dict[str, Any]:
    """Returns the only MiniCluster of a file.  Raises Fail, or ManifestError if it would be refused."""
    miniclusters = [one for one in documents(read(path), path) if one.get("kind") == MINICLUSTER.kind]
    if len(miniclusters) != 1:
        raise Fail(f"{path} holds {len(miniclusters)} MiniClusters", fix="name a file with exactly one")
    minicluster = miniclusters[0]
    accepted(minicluster, path)
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
