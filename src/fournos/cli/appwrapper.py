"""fournos appwrapper …: groups of resources that are queued as one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import typer
import yaml
from rich.text import Text

from fournos.api.kinds import APPWRAPPER
from fournos.cli.command import Cli, command_group, verb
from fournos.cli.errors import Fail
from fournos.cli.explain import show_explanation
from fournos.cli.find import find_of_kind, name_argument
from fournos.cli.list import EverywhereOption, ListTable, SelectorOption, show_list
from fournos.cli.output import (
    condition_table,
    created_fact,
    details,
    phase_text,
    pod_table,
    table,
    workload_table,
)
from fournos.cli.submit import read
from fournos.insight.appwrappers import (
    WrapperMembers,
    components,
    explained,
    kinds,
    members,
    resets,
    user_of,
    why,
    wrapped,
)
from fournos.insight.manifests import documents
from fournos.insight.quota import priority_class, queue_name
from fournos.insight.values import Obj, created, key_of, name_of, phase_of, since, spec_of

app = command_group("AppWrappers: resources that Kueue admits, and that end, as one.")

NameArgument = Annotated[str, name_argument(APPWRAPPER)]


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
    await show_list(cli, APPWRAPPER, _TABLE, phase_of, phases=phase, selector=selector, everywhere=everywhere)


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
    return [*row, why(wrapper)]


_TABLE: Final = ListTable(
    ("NAME", "PHASE", "QUEUE", "COMPONENTS", "AGE"), ("USER", "PRIORITY", "RESETS"), _row
)


@verb(app, "get", "show")
async def get_appwrapper(cli: Cli, name: NameArgument) -> None:
    """Show one: its components and how they do, its Workload, every condition with its reason.

    \b
    fournos appwrapper get sample
    fournos appwrapper get sample -o yaml
    """
    async with cli.session() as session:
        wrapper = await find_of_kind(session, APPWRAPPER, name)
        if cli.output.objects(APPWRAPPER, [wrapper], single=True):
            return
        found = await members(session.api, wrapper)
    cli.output.lines(detail(wrapper, found, cli.world.now(), width=cli.output.width))


def detail(wrapper: Obj, belongings: WrapperMembers, now: datetime, *, width: int | None) -> list[Text]:
    facts = [
        ("Namespace", key_of(wrapper).namespace),
        ("User", user_of(wrapper)),
        ("Queue", queue_name(wrapper)),
        ("Priority", priority_class(wrapper)),
        ("Managed by", spec_of(wrapper).get("managedBy")),
        ("Created", created_fact(wrapper, now)),
        ("Resets", resets(wrapper)),
        ("Message", why(wrapper)),
    ]
    inner = width and width - 2
    sections = (
        ("Components", _components(wrapper, belongings, inner)),
        ("Conditions", condition_table(wrapper, now, width)),
        ("Workloads", workload_table(belongings.workloads, now, inner)),
        ("Pods", pod_table(belongings.pods, now, inner)),
        ("Next", [Text(f"fournos appwrapper explain {name_of(wrapper)}")]),
    )
    return details(wrapper, facts, sections)


def _components(wrapper: Obj, belongings: WrapperMembers, width: int | None) -> list[Text]:
    rows = [
        (one.kind, one.name, one.state, "-" if one.pods is None else str(one.pods))
        for one in components(wrapper, belongings)
    ]
    return table(("KIND", "NAME", "STATE", "PODS"), rows, width=width)


@verb(app, "explain", "why")
async def explain_appwrapper(cli: Cli, name: NameArgument) -> None:
    """Say why an AppWrapper waits, is made again or has failed, and what to do about it.

    \b
    fournos appwrapper explain sample
    fournos appwrapper explain sample -o json
    """
    async with cli.session() as session:
        wrapper = await find_of_kind(session, APPWRAPPER, name)
        explanation, _ = await explained(session.api, wrapper, cli.world.now())
    show_explanation(cli, wrapper, explanation)


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
