"""fournos minicluster list, get, logs, scale: the commands that need a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from fournos.api.kinds import MINICLUSTER
from fournos.cli.command import Cli, Session, verb
from fournos.cli.find import completion, find_one
from fournos.cli.formatting import phase_text
from fournos.cli.get import condition_table, indented
from fournos.cli.listing import EverywhereOption, SelectorOption, show_list
from fournos.cli.logs import Printer, show
from fournos.cli.output import table
from fournos.cli.progress import headline
from fournos.client.logs import container_lines
from fournos.engine.kube.resource import Obj, key_of
from fournos.insight.miniclusters import log_source, phase_of, pods, rank_of, scale_change, workloads
from fournos.insight.queued import queue_name, workload_state
from fournos.insight.values import between, created, name_of, one_line, since, spec_of, status_of

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of the MiniCluster.",
        autocompletion=completion(MINICLUSTER),
        show_default=False,
    ),
]


def install(app: typer.Typer) -> None:
    verb(app, "list", "ls")(list_miniclusters)
    verb(app, "get", "show")(get)
    verb(app, "logs", "log")(logs)
    verb(app, "scale")(scale)


# --- list ------------------------------------------------------------------------------------------------


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
    await show_list(cli, MINICLUSTER, view, phase_of, phases=phase, selector=selector, everywhere=everywhere)


def view(
    found: Sequence[Obj], *, now: datetime, wide: bool, everywhere: bool, width: int | None
) -> list[Text]:
    header = ["NAME", "PHASE", "SIZE", "READY", "EXIT", "AGE", "RAN"]
    header += ["MAX", "QUEUE"] if wide else []
    rows = [_row(one, now, wide) for one in found]
    if everywhere:
        header.insert(0, "NAMESPACE")
        rows = [[key_of(one).namespace, *row] for one, row in zip(found, rows, strict=True)]
    return table([*header, "MESSAGE"], rows, width=width)


def _row(one: Obj, now: datetime, wide: bool) -> list[str | Text]:
    status = status_of(one)
    code = status.get("exitCode")
    row: list[str | Text] = [
        name_of(one),
        phase_text(phase_of(one)),
        str(spec_of(one).get("size", 1)),
        str(status.get("ready") or 0),
        "-" if code is None else str(code),
        since(created(one), now),
        between(status.get("startedAt"), status.get("finishedAt"), now),
    ]
    if wide:
        row += [str(status.get("maximumSize") or "-"), queue_name(one) or "-"]
    return [*row, one_line(status.get("message"))]


# --- get -------------------------------------------------------------------------------------------------


async def get(cli: Cli, name: NameArgument) -> None:
    """Show one: its size, its result, its conditions, its pods by rank.

    \b
    fournos minicluster get flux-sample
    fournos minicluster get flux-sample -o yaml
    """
    async with cli.session() as session:
        one = await find(session, name)
        if cli.output.objects(MINICLUSTER, [one], single=True):
            return
        found = await pods(session.api, one)
        queued = await workloads(session.api, one)
    cli.output.lines(detail(one, found, queued, cli.world.now(), width=cli.output.width))


def detail(
    one: Obj, found: Sequence[Obj], queued: Sequence[Obj], now: datetime, *, width: int | None
) -> list[Text]:
    spec, status = spec_of(one), status_of(one)
    code, largest = status.get("exitCode"), status.get("maximumSize")
    facts = [
        ("Namespace", key_of(one).namespace),
        ("Size", f"{spec.get('size', 1)}" + (f" of at most {largest}" if largest else "")),
        ("Ready", status.get("ready")),
        ("Exit code", None if code is None else str(code)),
        ("Queue", queue_name(one)),
        ("Managed by", spec.get("managedBy")),
        ("Created", f"{created(one)} ({since(created(one), now)} ago)"),
        ("Ran", between(status.get("startedAt"), status.get("finishedAt"), now)),
        ("Message", one_line(status.get("message"))),
    ]
    lines = [headline(one)]
    lines += [Text.assemble("  ", (f"{label:<13}", "dim"), str(value)) for label, value in facts if value]
    inner = width and width - 2
    for title, body in (
        ("Conditions", condition_table(one, now, width)),
        ("Workloads", _workloads(queued, now, inner)),
        ("Pods", _pods(found, now, inner)),
        ("Next", _next(one)),
    ):
        if body:
            lines += [Text(), Text(title, style="bold"), *(indented(line) for line in body)]
    return lines


def _workloads(found: Sequence[Obj], now: datetime, width: int | None) -> list[Text]:
    rows = [(name_of(one), since(created(one), now), workload_state(one)) for one in found]
    return table(("NAME", "AGE", "STATE"), rows, width=width) if rows else []


def _pods(found: Sequence[Obj], now: datetime, width: int | None) -> list[Text]:
    rows = [
        (
            rank_of(pod) or "services",
            name_of(pod),
            since(created(pod), now),
            str(status_of(pod).get("phase") or "Pending").lower(),
            str(spec_of(pod).get("nodeName") or "-"),
        )
        for pod in found
    ]
    return table(("RANK", "NAME", "AGE", "STATE", "NODE"), rows, width=width) if rows else []


def _next(one: Obj) -> list[Text]:
    name = name_of(one)
    commands = [f"fournos minicluster logs {name}"]
    if phase_of(one) != "Finished":
        commands = [f"fournos minicluster logs -f {name}", f"fournos minicluster scale {name} SIZE"]
    return [Text(command) for command in commands]


# --- logs ------------------------------------------------------------------------------------------------


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
        one = await find(session, name)
        source = log_source(one, await pods(session.api, one), rank=rank, container=container)
        if not await show(container_lines(session.api, source, tail, follow=follow), Printer(cli)):
            cli.output.hint("No lines: the container has printed nothing, or has not begun.")


# --- scale -----------------------------------------------------------------------------------------------


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
        one = await find(session, name)
        await session.api.patch(MINICLUSTER, key_of(one), scale_change(one, size))
    cli.output.say(
        f"{name_of(one)}: {size} pods asked for. See how far it is: fournos minicluster get {name_of(one)}"
    )


# --- shared ----------------------------------------------------------------------------------------------


async def find(session: Session, name: str) -> Obj:
    """Returns the MiniCluster of this name.  Raises Fail if there is none."""
    bare = name.rpartition("/")[2]
    return await find_one(session, MINICLUSTER, bare, command="fournos minicluster", what="MiniCluster")
