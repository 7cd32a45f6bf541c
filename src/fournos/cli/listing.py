"""The `list` command of a namespaced kind whose objects have phases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from fournos.api.kinds import Resource
from fournos.cli.command import Cli
from fournos.cli.options import Format
from fournos.cli.output import table
from fournos.insight.jobs import newest_first
from fournos.insight.values import Obj, key_of

SelectorOption = Annotated[
    str,
    typer.Option("--selector", "-l", metavar="LABELS", help="Only those with these labels: a=b,c!=d."),
]
EverywhereOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")]


@dataclass(frozen=True, slots=True)
class ListTable:
    """The table of a list; the namespace is added to it."""

    columns: tuple[str, ...]
    wide: tuple[str, ...]
    """The further columns of the wide form; MESSAGE follows them."""
    row: Callable[[Obj, datetime, bool], list[str | Text]]
    """Returns the cells of an object; True: of the wide form."""

    def lines(
        self, objects: Sequence[Obj], *, now: datetime, wide: bool, everywhere: bool, width: int | None
    ) -> list[Text]:
        header = [*self.columns, *(self.wide if wide else ()), "MESSAGE"]
        rows = [self.row(obj, now, wide) for obj in objects]
        if everywhere:
            header.insert(0, "NAMESPACE")
            rows = [[key_of(obj).namespace, *row] for obj, row in zip(objects, rows, strict=True)]
        return table(header, rows, width=width)


async def show_list(
    cli: Cli,
    resource: Resource,
    shown_as: ListTable,
    phase_of: Callable[[Obj], str],
    *,
    phases: Iterable[str] | None,
    selector: str,
    everywhere: bool,
) -> None:
    """Prints the objects in one of the phases (None: in any), newest first."""
    async with cli.session() as session:
        namespace = "" if everywhere else session.namespace
        listed = (await session.api.list(resource, namespace=namespace, selector=selector)).items
    wanted = {one.lower() for one in phases or ()}
    shown = [one for one in newest_first(listed) if not wanted or phase_of(one).lower() in wanted]
    if cli.output.objects(resource, shown):
        return
    if not shown:
        where = "any namespace" if everywhere else f"namespace {session.namespace}"
        cli.output.hint(
            f"No {resource.kind}s in {where}." if not listed else "None of them is in that phase."
        )
        return
    wide = cli.output.form is Format.WIDE
    cli.output.lines(
        shown_as.lines(shown, now=cli.world.now(), wide=wide, everywhere=everywhere, width=cli.output.width)
    )
