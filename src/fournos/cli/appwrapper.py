"""fournos appwrapper …: groups of resources that are queued as one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from fournos.api.conditions import condition, is_true
from fournos.appwrappers.component_health import State, other
from fournos.appwrappers.kinds import wrapped_kind
from fournos.appwrappers.names import APPWRAPPER, USER_LABEL
from fournos.appwrappers.pods import component_of, count
from fournos.appwrappers.pods import phase_of as pod_phase
from fournos.cli.command import Cli, Session, verb
from fournos.cli.explain import view as explanation
from fournos.cli.find import completion, find_one
from fournos.cli.formatting import phase_text
from fournos.cli.get import condition_table, indented
from fournos.cli.lazy import sub_app
from fournos.cli.listing import EverywhereOption, SelectorOption, show_list
from fournos.cli.output import table
from fournos.cli.progress import headline
from fournos.insight.appwrapper_facts import members
from fournos.insight.appwrapper_reasons import Members, explain, why
from fournos.insight.explanation import as_data
from fournos.insight.facts import queue_facts
from fournos.insight.values import created, name_of, phase_of, since, spec_of, status_of
from fournos.kube.resource import Obj, key_of
from fournos.queueing.podsets import queue_name
from fournos.queueing.priority import PRIORITY_LABEL
from fournos.queueing.state import view as queue_view

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
    labels = wrapper["metadata"].get("labels") or {}
    row: list[str | Text] = [
        name_of(wrapper),
        phase_text(phase_of(wrapper)),
        queue_name(wrapper) or "-",
        ", ".join(_kinds(wrapper)),
        since(created(wrapper), now),
    ]
    if wide:
        resets = status_of(wrapper).get("resettingCount")
        row += [str(labels.get(USER_LABEL) or "-"), str(labels.get(PRIORITY_LABEL) or "-"), str(resets or 0)]
    return row


def _kinds(wrapper: Obj) -> list[str]:
    """The kinds of the components with their numbers, such as Pod, 2 Service."""
    kinds = [str(one["template"].get("kind")) for one in spec_of(wrapper).get("components") or ()]
    counts = {kind: kinds.count(kind) for kind in kinds}
    return [kind if number == 1 else f"{number} {kind}" for kind, number in counts.items()]


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
    labels = wrapper["metadata"].get("labels") or {}
    facts = [
        ("Namespace", key_of(wrapper).namespace),
        ("User", labels.get(USER_LABEL)),
        ("Queue", queue_name(wrapper)),
        ("Priority", labels.get(PRIORITY_LABEL)),
        ("Managed by", spec_of(wrapper).get("managedBy")),
        ("Created", f"{created(wrapper)} ({since(created(wrapper), now)} ago)"),
        ("Resets", status_of(wrapper).get("resettingCount")),
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
    statuses = status_of(wrapper).get("componentStatus") or ()
    rows = []
    components = spec_of(wrapper).get("components") or ()
    for index, component in enumerate(components):
        template = component["template"]
        status = statuses[index] if index < len(statuses) else {}
        asked = (template.get("metadata") or {}).get("name") or "(generated)"
        pods = [pod for pod in found.pods if component_of(pod, len(components)) == index]
        rows.append(
            (
                str(template.get("kind")),
                str(status.get("name") or asked),
                _state(template, status, found.components.get(index)),
                str(count(pods)) if pods else "-",
            )
        )
    return table(("KIND", "NAME", "STATE", "PODS"), rows, width=width)


def _state(template: Obj, status: Any, live: Obj | None) -> str:
    if is_true({"status": status}, "Finished"):
        return State.SUCCEEDED.value
    if live is None:
        deployed = condition({"status": status}, "ResourcesDeployed") or {}
        return "gone" if deployed.get("status") == "True" else "not made"
    kind = wrapped_kind(template)
    judged = other if kind is None else kind.judge
    judgement = judged(live) if judged is not None else None
    if judgement is None:
        return "there"
    return f"{judgement.state.value}: {judgement.message}".removesuffix(": ")


def _workloads(found: Members, now: datetime, width: int | None) -> list[Text]:
    rows = [(name_of(one), since(created(one), now), queue_view(one).state.value) for one in found.workloads]
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
    told = explain(wrapper, found, facts, cli.world.now())
    if cli.output.structured:
        cli.output.data(as_data(wrapper, told))
    else:
        cli.output.lines(explanation(wrapper, told, cli.world.now(), width=cli.output.width))


# --- shared ------------------------------------------------------------------------------------------


async def _find(session: Session, name: str) -> Obj:
    """Returns the AppWrapper of this name.  Raises Fail if there is none."""
    bare = name.rpartition("/")[2]
    return await find_one(session, APPWRAPPER, bare, command="fournos appwrapper", what="AppWrapper")
