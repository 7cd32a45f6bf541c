"""fournos cluster …: the clusters that jobs run on, their locks and their draining."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.cli.command import Cli, CliSession, command_group, verb
from fournos.cli.errors import Fail
from fournos.cli.exits import Exit
from fournos.cli.find import completion
from fournos.cli.options import Format
from fournos.cli.output import table
from fournos.engine.api.conditions import condition
from fournos.engine.api.values import format_time
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import Key, Obj
from fournos.insight import kueue_clusters
from fournos.insight.clusters import (
    UNLOCKED,
    discover_change,
    drain_change,
    drained,
    lock_change,
    lock_of,
    locked_for,
    looked_at,
    ttl_of,
)
from fournos.insight.environment import clusters_namespace
from fournos.insight.kueue_clusters import KueueCluster
from fournos.insight.values import created, name_of, since, spec_of, status_of

_POLL: Final = 0.5
_PATIENCE: Final = 60.0

app = command_group(
    "Clusters that jobs run on: what they have, who holds them. They are in the namespace of -n, "
    "HEARTH_NAMESPACE or hearth."
)

ClusterArgument = Annotated[
    str,
    typer.Argument(
        metavar="CLUSTER",
        help="Name of the cluster.",
        autocompletion=completion(FOURNOS_CLUSTER, namespace_of=lambda cli, session: _namespace(cli)),
        show_default=False,
    ),
]
NoWaitOption = Annotated[
    bool, typer.Option("--no-wait", help="Request it and return at once, without waiting until it is done.")
]


def _namespace(cli: Cli) -> str:
    """The namespace of the FournosClusters."""
    return cli.common.namespace or clusters_namespace()


@asynccontextmanager
async def _session(cli: Cli) -> AsyncIterator[CliSession]:
    async with cli.session() as session:
        yield replace(session, namespace=_namespace(cli))


@verb(app, "list", "ls")
async def list_clusters(cli: Cli) -> None:
    """List clusters: GPUs, owners, health; without FournosClusters those with quota in Kueue.

    \b
    fournos cluster list
    fournos cluster list -o wide          versions, certificates, jobs
    """
    async with _session(cli) as session:
        try:
            clusters = (await session.api.list(FOURNOS_CLUSTER, namespace=session.namespace)).items
        except NotFoundError:
            clusters = []  # an installation without FournosClusters
        of_kueue = () if clusters else await kueue_clusters.read(session.api)
    if cli.output.objects(FOURNOS_CLUSTER, clusters):
        return
    if not clusters:
        cli.output.hint(f"No FournosClusters in namespace {session.namespace}.")
        if of_kueue:
            cli.output.hint("These have quota in Kueue, and jobs can name them:")
            cli.output.lines(quota_view(of_kueue, width=cli.output.width))
        return
    wide = cli.output.form is Format.WIDE
    cli.output.lines(view(clusters, now=cli.world.now(), wide=wide, width=cli.output.width))


def quota_view(clusters: Sequence[KueueCluster], *, width: int | None) -> list[Text]:
    gpus = [", ".join(f"{number}x {gpu}" for gpu, number in each.gpus.items()) for each in clusters]
    rows = [[each.name, text or "-", each.closed or "-"] for each, text in zip(clusters, gpus, strict=True)]
    return table(["NAME", "GPUS", "CLOSED"], rows, width=width)


def view(clusters: Sequence[Obj], *, now: datetime, wide: bool, width: int | None) -> list[Text]:
    header = ["NAME", "OWNER", "GPUS", "KUBECONFIG", "LOCKED", "JOBS", "AGE"]
    if wide:
        header += ["VERSION", "EXPIRES", "QUOTA"]
    return table(header, [_row(cluster, now, wide) for cluster in clusters], width=width)


def _row(cluster: Obj, now: datetime, wide: bool) -> list[str | Text]:
    spec, status = spec_of(cluster), status_of(cluster)
    row: list[str | Text] = [
        name_of(cluster),
        str(spec.get("owner") or "-"),
        str(status.get("gpuSummary") or "-"),
        str(status.get("kubeconfigStatus") or "-"),
        str((status.get("lock") or {}).get("state") or "-"),
        str(status.get("runningJobs") or 0) + (" (draining)" if spec.get("drain") else ""),
        since(created(cluster), now),
    ]
    if wide:
        connection = status.get("connection") or {}
        quota = condition(cluster, "QuotaSynced") or {}
        row += [
            str(connection.get("version") or "-"),
            str(connection.get("certificateExpires") or "-"),
            str(quota.get("reason") or "-"),
        ]
    return row


@verb(app, "get")
async def get_cluster(cli: Cli, name: ClusterArgument) -> None:
    """Show one cluster: its GPUs, its lock, and every condition with its reason."""
    async with _session(cli) as session:
        cluster = await _find(session, name)
    if cli.output.objects(FOURNOS_CLUSTER, [cluster], single=True):
        return
    cli.output.lines(details(cluster))


def details(cluster: Obj) -> list[Text]:
    spec, status = spec_of(cluster), status_of(cluster)
    lock, connection = status.get("lock") or {}, status.get("connection") or {}
    facts = [
        ("Name", name_of(cluster)),
        ("Owner", spec.get("owner")),
        ("Lock", " ".join(filter(None, (lock.get("state"), _until(status))))),
        ("Waits for", ", ".join(lock.get("behind") or ())),
        ("Waiting", ", ".join(lock.get("waiting") or ())),
        ("GPUs", status.get("gpuSummary")),
        ("Kubernetes", connection.get("version")),
        ("Credentials", connection.get("certificateExpires") and f"until {connection['certificateExpires']}"),
        ("Jobs", status.get("runningJobs")),
        ("Drain", spec.get("drain")),
    ]
    lines = table([], [(f"{label}:", str(value)) for label, value in facts if value])
    conditions = [
        (one["type"], one["status"], str(one.get("reason") or ""), str(one.get("message") or ""))
        for one in status.get("conditions") or ()
    ]
    return [*lines, Text(), *table(["CONDITION", "STATUS", "REASON", "MESSAGE"], conditions)]


def _until(status: Obj) -> str:
    return f"until {status['lockExpiresAt']}" if status.get("lockExpiresAt") else ""


@verb(app, "lock")
async def lock_cluster(
    cli: Cli,
    name: ClusterArgument,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="For whom; default: FOURNOS_OWNER.")
    ] = None,
    ttl: Annotated[
        str | None, typer.Option("--ttl", metavar="TIME", help="How long, such as 30m, 12h or 7d.")
    ] = None,
    drain: Annotated[
        str | None,
        typer.Option(
            "--drain",
            metavar="HOW",
            help="Keep new jobs away until it is held: wait lets those that run end, stop shuts them down.",
        ),
    ] = None,
    no_wait: NoWaitOption = False,
) -> int:
    """Have a cluster to yourself: returns when the lock is held.

    \b
    fournos cluster lock cluster-1 --owner me --ttl 4h
    fournos cluster lock cluster-1 --owner me --drain wait
    """
    who = owner or cli.me
    if not who:
        raise Fail("for whom?", fix="name the owner with --owner NAME, or set FOURNOS_OWNER")
    ttl_of(ttl), drain_change(drain)
    async with _session(cli) as session:
        cluster = await _find(session, name)
        body = lock_change(cluster, who, ttl=ttl, drain=drain, now=cli.world.now())
        await session.api.patch(FOURNOS_CLUSTER, _key(session, name), body)
        if no_wait:
            cli.output.say(f"{name}: lock requested for {who}")
            return Exit.OK
        held = await _until_so(session, name, lambda found: locked_for(found, who))
    if held is None:
        cli.output.warn(f"{name}: requested for {who}, not held yet. See: fournos cluster get {name}")
        return Exit.TIMEOUT
    cli.output.say(f"{name}: locked for {who} {_until(status_of(held))}".rstrip())
    return Exit.OK


@verb(app, "unlock")
async def unlock_cluster(cli: Cli, name: ClusterArgument, no_wait: NoWaitOption = False) -> int:
    """Give a cluster back: returns when the lock is gone. It takes jobs again, also if it was drained."""
    async with _session(cli) as session:
        await _find(session, name)
        await session.api.patch(FOURNOS_CLUSTER, _key(session, name), {"spec": dict(UNLOCKED)})
        gone = no_wait or await _until_so(session, name, lambda found: not lock_of(found))
    if not gone:
        cli.output.warn(f"{name}: the lock is still being released")
        return Exit.TIMEOUT
    cli.output.say(f"{name}: unlocked")
    return Exit.OK


@verb(app, "drain")
async def drain_cluster(
    cli: Cli,
    name: ClusterArgument,
    stop: Annotated[bool, typer.Option("--stop", help="Shut down the jobs that run, too.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take jobs again.")] = False,
    no_wait: NoWaitOption = False,
) -> int:
    """Start no more jobs on a cluster: returns when the last has ended.

    \b
    fournos cluster drain cluster-1
    fournos cluster drain cluster-1 --undo
    """
    if stop and undo:
        raise Fail("--stop and --undo are opposites", fix="give one of them")
    async with _session(cli) as session:
        await _find(session, name)
        wanted = None if undo else "Stop" if stop else "Wait"
        await session.api.patch(FOURNOS_CLUSTER, _key(session, name), {"spec": {"drain": wanted}})
        if undo or no_wait:
            cli.output.say(f"{name}: {'takes jobs again' if undo else 'takes no more jobs'}")
            return Exit.OK
        ended = await _until_so(session, name, drained)
    if ended is None:
        cli.output.warn(f"{name}: takes no more jobs; some still run. See: fournos cluster get {name}")
        return Exit.TIMEOUT
    cli.output.say(f"{name}: drained")
    return Exit.OK


@verb(app, "discover")
async def discover_cluster(cli: Cli, name: ClusterArgument, no_wait: NoWaitOption = False) -> int:
    """Look at a cluster anew: its Secret, its API server, its nodes."""
    asked = format_time(cli.world.now())
    async with _session(cli) as session:
        await _find(session, name)
        await session.api.patch(FOURNOS_CLUSTER, _key(session, name), discover_change(asked))
        cluster = None if no_wait else await _until_so(session, name, lambda one: looked_at(one, asked))
    if cluster is None:
        cli.output.say(f"{name}: discovery is requested")
        return Exit.OK if no_wait else Exit.TIMEOUT
    status = status_of(cluster)
    error = (status.get("hardware") or {}).get("lastError")
    cli.output.say(f"{name}: {error or status.get('gpuSummary') or 'no GPUs'}")
    return Exit.FAILED if error else Exit.OK


# --- shared ------------------------------------------------------------------------------------------


def _key(session: CliSession, name: str) -> Key:
    return Key(session.namespace, name)


async def _find(session: CliSession, name: str) -> Obj:
    try:
        return await session.api.get(FOURNOS_CLUSTER, _key(session, name))
    except NotFoundError:
        raise Fail(
            f"no cluster {name} in namespace {session.namespace}",
            fix="list what there is: fournos cluster list",
            code=Exit.NOT_FOUND,
        ) from None


async def _until_so(session: CliSession, name: str, holds: Any) -> Obj | None:
    """Waits until `holds` is true for the cluster and returns it; None after the time limit."""
    try:
        async with asyncio.timeout(_PATIENCE):
            while True:
                found = await _find(session, name)
                if holds(found):
                    return found
                await asyncio.sleep(_POLL)
    except TimeoutError:
        return None
