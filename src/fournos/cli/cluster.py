"""fournos cluster …: the clusters that jobs run on, their locks and their draining."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.cli.command import Cli, CliSession, command_group, verb
from fournos.cli.errors import Exit, Fail
from fournos.cli.find import completion
from fournos.cli.options import Format
from fournos.cli.output import table
from fournos.client.clusters import AsyncCluster
from fournos.client.errors import NotInstalledError, NotThereError, WaitTimeout
from fournos.client.handles import PATIENCE
from fournos.engine.api.conditions import condition
from fournos.insight.clusters import KueueCluster, read_kueue_clusters
from fournos.insight.readable import shown_all
from fournos.insight.source import clusters_namespace
from fournos.insight.values import Obj, created, name_of, since, spec_of, status_of

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


@verb(app, "list", "ls")
async def list_clusters(cli: Cli) -> None:
    """List clusters: GPUs, owners, health; without FournosClusters those with quota in Kueue.

    \b
    fournos cluster list
    fournos cluster list -o wide          versions, certificates, jobs
    """
    async with cli.session() as session:
        try:
            clusters = [one.raw for one in await session.clusters(namespace=_namespace(cli))]
        except (NotInstalledError, NotThereError):
            clusters = []  # an installation without FournosClusters
        of_kueue = () if clusters else await read_kueue_clusters(session.api)
    if cli.output.objects(FOURNOS_CLUSTER, clusters):
        return
    if not clusters:
        cli.output.hint(f"No FournosClusters in namespace {_namespace(cli)}.")
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

    def lines(readable: list[Obj]) -> list[Text]:
        return table(header, [_row(cluster, now, wide) for cluster in readable], width=width)

    return shown_all(FOURNOS_CLUSTER, [*clusters], lines)


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
    async with cli.session() as session:
        cluster = (await _cluster(cli, session, name)).raw
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
    async with cli.session() as session:
        cluster = await _cluster(cli, session, name)
        late = f"requested for {who}, not held yet. See: fournos cluster get {name}"
        asked = cluster.lock(owner=who, ttl=ttl, drain=drain, timeout=_patience(no_wait))
        if not await _done(cli, name, asked, late):
            return Exit.TIMEOUT
    done = "lock requested" if no_wait else "locked"
    cli.output.say(f"{name}: {done} for {who} {'' if no_wait else _until(status_of(cluster.raw))}".rstrip())
    return Exit.OK


@verb(app, "unlock")
async def unlock_cluster(cli: Cli, name: ClusterArgument, no_wait: NoWaitOption = False) -> int:
    """Give a cluster back: returns when the lock is gone. It takes jobs again, also if it was drained."""
    async with cli.session() as session:
        cluster = await _cluster(cli, session, name)
        asked = cluster.unlock(timeout=_patience(no_wait))
        if not await _done(cli, name, asked, "the lock is still being released"):
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
    async with cli.session() as session:
        cluster = await _cluster(cli, session, name)
        late = f"takes no more jobs; some still run. See: fournos cluster get {name}"
        asked = cluster.undrain() if undo else cluster.drain(stop=stop, timeout=_patience(no_wait))
        if not await _done(cli, name, asked, late):
            return Exit.TIMEOUT
    done = "takes jobs again" if undo else "takes no more jobs" if no_wait else "drained"
    cli.output.say(f"{name}: {done}")
    return Exit.OK


@verb(app, "discover")
async def discover_cluster(cli: Cli, name: ClusterArgument, no_wait: NoWaitOption = False) -> int:
    """Look at a cluster anew: its Secret, its API server, its nodes."""
    async with cli.session() as session:
        cluster = await _cluster(cli, session, name)
        asked = cluster.discover(timeout=_patience(no_wait))
        if not await _done(cli, name, asked, "discovery is requested, and has not been done yet"):
            return Exit.TIMEOUT
    if no_wait:
        cli.output.say(f"{name}: discovery is requested")
        return Exit.OK
    error = (status_of(cluster.raw).get("hardware") or {}).get("lastError")
    cli.output.say(f"{name}: {error or cluster.gpus or 'no GPUs'}")
    return Exit.FAILED if error else Exit.OK


# --- shared ------------------------------------------------------------------------------------------


def _patience(no_wait: bool) -> float:
    return 0 if no_wait else PATIENCE


async def _done(cli: Cli, name: str, request: Awaitable[None], late: str) -> bool:
    """Waits for a request to take effect; warns with `late` and returns False if that takes too long."""
    try:
        await request
    except WaitTimeout:
        cli.output.warn(f"{name}: {late}")
        return False
    return True


async def _cluster(cli: Cli, session: CliSession, name: str) -> AsyncCluster:
    return await session.cluster(name, namespace=_namespace(cli))
