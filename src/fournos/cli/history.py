"""fournos history …: what is kept and deleted, run where the database can be reached, such as in its pod."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError
from rich.text import Text

from fournos.cli.command import Cli, command_group, verb
from fournos.cli.errors import Exit, Fail
from fournos.cli.list import EverywhereOption
from fournos.cli.options import Format
from fournos.cli.output import table
from fournos.cli.stored import api_data
from fournos.engine.api.values import parse_ttl
from fournos.extras import remedy
from fournos.history.records import ALL_RUNS, PAGE_MAX, Query, Run, RunFilter, Scope
from fournos.history.settings import StoreSettings
from fournos.insight.values import count

if TYPE_CHECKING:
    from fournos.history.blobs import Blobs
    from fournos.history.store import HistoryStore
    from fournos.history.usage import Share, Usage


app = command_group("What the history keeps and deletes; run where its database can be reached.")

UidOption = Annotated[str, typer.Option("--uid", metavar="UID", help="The one with this UID, of several.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="Name of the object.")]


@verb(app, "keep")
async def keep(
    cli: Cli,
    name: NameArgument,
    uid: UidOption = "",
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is stored.")] = "",
    off: Annotated[bool, typer.Option("--off", help="Take the mark away.")] = False,
) -> None:
    """Mark a run as one that never expires, such as a baseline."""
    async with _store() as store:
        run = await _one(cli, store, name, uid)
        await store.keep(run.identity, not off, by=cli.me, reason=reason, now=datetime.now(UTC))
    cli.output.say(f"{run.key} {'may expire' if off else 'is kept'}")


@verb(app, "delete", "rm")
async def delete(
    cli: Cli,
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", show_default=False, help="Name of the object.")
    ] = "",
    uid: UidOption = "",
    owner: Annotated[
        list[str] | None, typer.Option("--owner", metavar="OWNER", help="All of this owner; repeat it.")
    ] = None,
    older: Annotated[
        str,
        typer.Option("--older-than", metavar="TIME", help="All submitted before that: 30d, 12h."),
    ] = "",
    cluster: Annotated[
        str,
        typer.Option(
            "--cluster", metavar="UID", help="Of this cluster: the UID of its namespace kube-system."
        ),
    ] = "",
    with_marked: Annotated[bool, typer.Option("--kept", help="Also those with a keep mark.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete; without it, only list them.")] = False,
) -> None:
    """Delete ended runs permanently, with their documents, logs and artifacts: they are not recorded again.

    \b
    fournos history delete --owner alice --older-than 30d          what would be deleted
    fournos history delete --owner alice --older-than 30d --yes
    """
    if not (name or uid or owner or older):
        raise Fail("Nothing selects what is to be deleted", fix="name a run, or use --owner or --older-than")
    namespace = cli.common.namespace or ""
    filters = RunFilter(name=name, owner=tuple(owner or ()), until=_before(older))
    query = Query(Scope(None, cluster), namespace, filters, uid)
    async with _store() as store:
        from fournos.history.store import retention

        runs = await retention.erasable(store, query, with_marked=with_marked)
        if len(clusters := {run.identity.cluster for run in runs}) > 1:
            choices = " or ".join(sorted(clusters))
            raise Fail(f"Runs of {len(clusters)} clusters match", fix=f"add --cluster {choices}")
        if yes:
            identities = [run.identity for run in runs]
            number = await retention.erase(store, _blobs(), identities, datetime.now(UTC))
            cli.output.say(f"{number} runs are deleted")
            return
    if not runs:
        raise Fail("No ended run matches", code=Exit.NOT_FOUND)
    _list(cli, runs)
    cli.output.hint(f"{len(runs)} runs; --yes deletes them")


@asynccontextmanager
async def _store() -> AsyncIterator[HistoryStore]:
    """Opens the database of the settings; its errors end the command."""
    settings = _settings()
    try:
        # An installation without the extra `history` has the other commands.
        from fournos.history.store import HistoryStore, StoreError
    except ImportError as error:
        raise Fail(f"{error.name} is missing", fix=remedy("history")) from error
    try:
        async with await HistoryStore.open(settings.database_url) as store:
            yield store
    except StoreError as error:
        raise Fail(str(error)) from error


def _blobs() -> Blobs:
    from fournos.history.blobs import BlobsUsageError, open_blobs

    settings = _settings()
    try:
        return open_blobs(settings.blob_place, settings.s3_ca_file)
    except BlobsUsageError as error:
        raise Fail(str(error)) from error


def _settings() -> StoreSettings:
    try:
        return StoreSettings()
    except ValidationError as error:
        wrong = ", ".join(f"FOURNOS_HISTORY_{each['loc'][0]}".upper() for each in error.errors())
        raise Fail(f"{wrong}: {error.errors()[0]['msg']}") from error


def _before(older: str) -> datetime | None:
    try:
        return datetime.now(UTC) - parse_ttl(older) if older else None
    except (ValueError, OverflowError) as error:
        raise Fail(f"--older-than: {error}") from error


async def _one(cli: Cli, store: HistoryStore, name: str, uid: str) -> Run:
    query = Query(ALL_RUNS, cli.common.namespace or "", RunFilter(name=name, limit=PAGE_MAX), uid)
    runs = list((await store.find(query)).runs)
    if not runs:
        raise Fail(f"No run of the name {name}", code=Exit.NOT_FOUND)
    if len(runs) > 1:
        _list(cli, runs)
        raise Fail(f"{len(runs)} runs have the name {name}", fix="choose one with --uid or -n")
    return runs[0]


def _list(cli: Cli, runs: list[Run]) -> None:
    rows = [
        [run.key.namespace, run.kind, run.name, run.phase, f"{run.submitted_at:%F %H:%M}", run.identity.uid]
        for run in runs
    ]
    header = ["NAMESPACE", "KIND", "NAME", "PHASE", "SUBMITTED", "UID"]
    cli.output.lines(table(header, rows, width=cli.output.width))


class By(StrEnum):
    """What the usage is shared by."""

    OWNER = "owner"
    CLUSTER = "cluster"
    PROJECT = "project"
    GPU_TYPE = "gpu-type"
    LOCK = "lock"
    """Owners of locks, which are in none of the others."""


async def usage(
    cli: Cli,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="The length of the period until now: 12h, 7d, 30d.")
    ] = "7d",
    by: Annotated[
        By | None,
        typer.Option(
            "--by", metavar="owner|cluster|project|gpu-type|lock", help="Only this table; default: all."
        ),
    ] = None,
    everywhere: EverywhereOption = False,
) -> None:
    """Show the GPU-hours of a period by owner, cluster, project and GPU type.

    Jobs that are gone count. A run counts from its begin to its end, with all of its GPUs; one that lasts
    longer than the period with the part within it. -o csv is for a spreadsheet.

    \b
    fournos usage
    fournos usage -A --since 30d --by owner
    fournos usage --since 30d -o csv > usage.csv
    """
    try:
        length = parse_ttl(since)
    except ValueError as error:
        raise Fail(str(error), fix="write a length such as 12h or 30d") from None
    if length <= timedelta(0):
        raise Fail(f"{since} is not a length of time", fix="write a length such as 12h or 30d")
    async with cli.session() as session:
        history = session.history
        used = await history.usage(since=cli.world.now() - length, everywhere=everywhere)
    if cli.output.structured:
        cli.output.data(api_data(used, by_alias=False))
        return
    if cli.output.form is Format.CSV:
        from fournos.history.usage import as_csv

        cli.output.say(as_csv(used).rstrip())
        return
    cli.output.say(f"{used.hours:.1f} GPU-hours in {count(used.runs, 'run')} since {since} ago")
    for name, shares in _shares(used).items():
        if shares and by in (None, name):
            cli.output.say("")
            cli.output.lines(_table(name, shares, used.hours, cli.output.width))


def _shares(used: Usage) -> dict[By, tuple[Share, ...]]:
    return {
        By.OWNER: used.owners,
        By.CLUSTER: used.clusters,
        By.PROJECT: used.projects,
        By.GPU_TYPE: used.gpu_types,
        By.LOCK: used.locks,
    }


def _table(by: By, shares: tuple[Share, ...], hours: float, width: int | None) -> list[Text]:
    parts = [f"{share.hours / hours:.0%}" if hours else "-" for share in shares]
    rows = [
        [share.name or "none", f"{share.hours:.1f}", part, str(share.runs)]
        for share, part in zip(shares, parts, strict=True)
    ]
    return table([by.value.upper(), "GPU-HOURS", "SHARE", "RUNS"], rows, width=width)
