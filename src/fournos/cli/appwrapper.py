"""fournos appwrapper …: groups of resources that are queued as one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from fournos.api.kinds import APPWRAPPER
from fournos.cli.command import Cli, Session, verb
from fournos.cli.explain import view as explanation
from fournos.cli.find import completion, find_one
from fournos.cli.formatting import phase_text
from fournos.cli.get import condition_table, indented
from fournos.cli.listing import EverywhereOption, SelectorOption, show_list
from fournos.cli.output import table
from fournos.cli.plain_help import sub_app
from fournos.cli.progress import headline
from fournos.engine.kube.resource import Obj, key_of
from fournos.insight.appwrapper_components import components, kinds, resets, user_of
from fournos.insight.appwrapper_facts import members
from fournos.insight.appwrapper_reasons import Members, explain, why
from fournos.insight.explanation import as_data
from fournos.insight.facts import queue_facts
from fournos.insight.queued import priority_class, queue_name, workload_state
from fournos.insight.values import created, name_of, phase_of, pod_phase, since, spec_of

app = sub_app()

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of the AppWrapper.",
        autocompletion=completion(APPWRAPPER),
        show_default=False,
    ),
]


@verb(app, "list", "ls")
async def list_appwrappers(
    cli: Cli,
    phase: Annotated[
        list[str] | None,
        typer.Option(
            "--phase", metavar="PHASE", help="Only those in this phase, such as Running; repeat it."
        ),
    ] = None,
    selector: SelectorOption = "",
    everywhere: EverywhereOption = False,
) -> None:
    """List AppWrappers, newest first.

    \b
    fournos appwrapper list
    fournos appwrapper list -A --phase Running -o wide    users, priorities, tries
    """
    await show_list(cli, APPWRAPPER, view, phase_of, phases=phase, selector=selector, everywhere=everywhere)


def view(
    found: Sequence[Obj], *, now: datetime, wide: bool, everywhere: bool, width: int | None
) -> list[Text]:
    header = ["NAME", "PHASE", "QUEUE", "COMPONENTS", "AGE"]
    header += ["USER", "PRIORITY", "RESETS"] if wide else []
    rows = [[*_row(wrapper, now, wide), why(wrapper)] for wrapper in found]
    if everywhere:
        header.insert(0, "NAMESPACE")
        rows = [[key_of(one).namespace, *row] for one, row in zip(found, rows, strict=True)]
    return table([*header, "MESSAGE"], rows, width=width)


def _row(wrapper: Obj, now: datetime, wide: bool) -> list[str | Text]:
    row: list[str | Text] = [
        name_of(wrapper),
        phase_text(phase_of(wrapper)),
        queue_name(wrapper) or "-",
        ", ".join(kinds(wrapper)),
        since(created(wrapper), now),
    ]
    if wide:
        row += [
            user_of(wrapper) or "-",
            priority_class(wrapper) or "-",
            str(resets(wrapper)),
        ]
    return row


@verb(app, "get", "show")
async def get_appwrapper(cli: Cli, name: NameArgument) -> None:
    """Show one: its components and how they do, its Workload, every condition with its reason.

    \b
    fournos appwrapper get sample
    fournos appwrapper get sample -o yaml
    """
    async with cli.session() as session:
        wrapper = await _find(session, name)
        if cli.output.objects(APPWRAPPER, [wrapper], single=True):
            return
        found = await members(session.api, wrapper)
    cli.output.lines(detail(wrapper, found, cli.world.now(), width=cli.output.width))


def detail(wrapper: Obj, found: Members, now: datetime, *, width: int | None) -> list[Text]:
    facts = [
        ("Namespace", key_of(wrapper).namespace),
        ("User", user_of(wrapper)),
        ("Queue", queue_name(wrapper)),
        ("Priority", priority_class(wrapper)),
        ("Managed by", spec_of(wrapper).get("managedBy")),
        ("Created", f"{created(wrapper)} ({since(created(wrapper), now)} ago)"),
        ("Resets", resets(wrapper)),
        ("Message", why(wrapper)),
    ]
    lines = [headline(wrapper)]
    lines += [Text.assemble("  ", (f"{label:<13}", "dim"), str(value)) for label, value in facts if value]
    inner = width and width - 2
    for title, body in (
        ("Components", _components(wrapper, found, inner)),
        ("Conditions", condition_table(wrapper, now, width)),
        ("Workloads", _workloads(found, now, inner)),
        ("Pods", _pods(found, now, inner)),
        ("Next", [Text(f"fournos appwrapper explain {name_of(wrapper)}")]),
    ):
        if body:
            lines += [Text(), Text(title, style="bold"), *(indented(line) for line in body)]
    return lines


def _components(wrapper: Obj, found: Members, width: int | None) -> list[Text]:
    rows = [
        (one.kind, one.name, one.state, "-" if one.pods is None else str(one.pods))
        for one in components(wrapper, found)
    ]
    return table(("KIND", "NAME", "STATE", "PODS"), rows, width=width)


def _workloads(found: Members, now: datetime, width: int | None) -> list[Text]:
    rows = [(name_of(one), since(created(one), now), workload_state(one)) for one in found.workloads]
    return table(("NAME", "AGE", "STATE"), rows, width=width) if rows else []


def _pods(found: Members, now: datetime, width: int | None) -> list[Text]:
    rows = [
        (
            name_of(pod),
            since(created(pod), now),
            pod_phase(pod).lower(),
            str(spec_of(pod).get("nodeName") or "-"),
        )
        for pod in found.pods
    ]
    return table(("NAME", "AGE", "STATE", "NODE"), rows, width=width) if rows else []


@verb(app, "explain", "why")
async def explain_appwrapper(cli: Cli, name: NameArgument) -> None:
    """Say why an AppWrapper waits, is made anew or has failed, and what to do about it.

    \b
    fournos appwrapper explain sample
    fournos appwrapper explain sample -o json
    """
    async with cli.session() as session:
        wrapper = await _find(session, name)
        found = await members(session.api, wrapper)
        queue = queue_name(wrapper)
        facts = await queue_facts(session.api, wrapper, queue) if queue else None
    explained = explain(wrapper, found, facts, cli.world.now())
    if cli.output.structured:
        cli.output.data(as_data(wrapper, explained))
    else:
        cli.output.lines(explanation(wrapper, explained, cli.world.now(), width=cli.output.width))


# --- shared ------------------------------------------------------------------------------------------


async def _find(session: Session, name: str) -> Obj:
    """Returns the AppWrapper of this name.  Raises Fail if there is none."""
    bare = name.rpartition("/")[2]
    return await find_one(session, APPWRAPPER, bare, command="fournos appwrapper", what="AppWrapper")
