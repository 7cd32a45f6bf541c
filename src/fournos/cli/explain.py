"""fournos explain, queue and estimate: why a job or another queued object waits, and what to do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from fournos.api.kinds import APPWRAPPER, FOURNOS_JOB, MINICLUSTER, Resource
from fournos.api.phase import ACTIVE
from fournos.cli.command import Cli, CliSession
from fournos.cli.find import (
    bare_name,
    complete_name,
    completion,
    find_job,
    find_of_kind,
    find_one,
    is_job_kind,
)
from fournos.cli.output import headline, phase_text, section, table
from fournos.cli.stored import api_data, estimated
from fournos.client.connection import manager_of
from fournos.insight import dispatch, frameworks
from fournos.insight.errors import MissingError
from fournos.insight.explanation import Explanation, as_data
from fournos.insight.facts import WaitFacts, gather
from fournos.insight.queues import entries, gather_queue
from fournos.insight.quota import LOCAL_QUEUE, rows
from fournos.insight.reasons import explain
from fournos.insight.sheets import sheet
from fournos.insight.values import Obj, between, key_of, phase_of, since, spec_of, status_of, uid_of

if TYPE_CHECKING:
    from fournos.history.estimates import Typical


ExplainedArgument = Annotated[
    str,
    typer.Argument(
        metavar="[KIND/]NAME",
        help="Name of the job, or @last; of another kind with the kind before it, as appwrapper/sample.",
        autocompletion=complete_name,
        show_default=False,
    ),
]


async def explain_object(cli: Cli, name: ExplainedArgument) -> None:
    """Say why a job, or another object in a queue, waits, and what to do about it.

    It looks at the job, its Workload, the queues and their quota, the jobs on the same cluster and those
    ahead in the queue; of what goes to another cluster, at each worker that was asked.

    \b
    fournos explain @last
    fournos explain nightly-x7k2m -o json
    fournos explain appwrapper/sample
    fournos explain pipelinerun/build-x7k2m
    """
    kind, _, bare = name.rpartition("/")
    async with cli.session() as session:
        if is_job_kind(kind):
            await _explain_job(cli, session, bare)
            return
        for resource in (APPWRAPPER, MINICLUSTER):
            if kind.lower() in _words(resource):
                await _explain_sheet(cli, session, resource, bare)
                return
        await _explain_queued(cli, session, kind, bare)


def _words(resource: Resource) -> set[str]:
    """The names of a kind, as kubectl takes them."""
    names = (resource.kind.lower(), resource.plural)
    return {*names, *(f"{name}.{resource.group}" for name in names)}


async def _explain_job(cli: Cli, session: CliSession, name: str) -> None:
    job = await find_job(cli, session, name)
    going = phase_of(job) in ACTIVE
    # Beside the other reads, so that a history costs no time of its own.
    estimate = asyncio.create_task(estimated(session, job)) if going else None
    try:
        facts = await gather(session.api, job, queue=cli.queue)
        predicted = await estimate if estimate is not None else None
    finally:
        if estimate is not None:
            estimate.cancel()
    explanation = explain(facts, cli.world.now())
    elsewhere = await dispatch.elsewhere(manager_of(session), facts.workload)
    if cli.output.structured:
        data = as_data(job, explanation) | elsewhere
        cli.output.data(data if predicted is None else data | {"estimate": api_data(predicted)})
    else:
        lines = view(job, explanation, cli.world.now(), width=cli.output.width)
        lines += _elsewhere_view(elsewhere)
        cli.output.lines(lines + _estimate(predicted, cli.world.now(), facts, explanation))


async def _explain_sheet(cli: Cli, session: CliSession, resource: Resource, name: str) -> None:
    """Explains an AppWrapper or a MiniCluster, with its parts."""
    obj = await find_of_kind(session, resource, name)
    read = await sheet(session.api, resource.kind, key_of(obj), cli.world.now())
    explanation = read.explanation
    shown = {**obj, "status": {**status_of(obj), "phase": read.phase}}
    if cli.output.structured:
        cli.output.data(as_data(shown, explanation))
        return
    lines = view(shown, explanation, cli.world.now(), width=cli.output.width)
    lines += section("Facts", table((), [(f"{label}:", text) for label, text in read.facts]))
    inner = cli.output.width and cli.output.width - 2
    for part in read.tables:
        header = [name.upper() for name in part.header]
        lines += section(part.title, table(header, part.rows, width=inner))
    cli.output.lines(lines)


async def _explain_queued(cli: Cli, session: CliSession, kind: str, name: str) -> None:
    """Explains an object of a kind that is queued by configuration, else a job that goes to a worker."""
    kinds = frameworks.kinds_of(os.environ.get("FOURNOS_FRAMEWORKS_FILE", ""))
    framework = next((one for one in kinds if kind.lower() in frameworks.words_of(one)), None)
    if framework is None:
        await _explain_dispatched(cli, session, name, [one.resource.kind for one in kinds])
        return
    resource = framework.resource
    obj = await find_one(session, resource, name, command=f"kubectl get {resource}", what=resource.kind)
    facts = await frameworks.gather(session.api, framework, obj)
    explanation = frameworks.explain(facts)
    elsewhere = await dispatch.elsewhere(manager_of(session), facts.workload)
    shown = {**obj, "status": {"phase": frameworks.phase(facts)}}
    if cli.output.structured:
        cli.output.data(as_data(shown, explanation) | elsewhere)
    else:
        lines = view(shown, explanation, cli.world.now(), width=cli.output.width)
        cli.output.lines(lines + _elsewhere_view(elsewhere))


async def _explain_dispatched(cli: Cli, session: CliSession, name: str, queued: Sequence[str]) -> None:
    """Explains a job of any kind, by its Workload, that goes to a worker."""
    try:
        workload = await dispatch.workload_named(session.api, session.namespace, name)
    except MissingError as missing:
        known = ", ".join((FOURNOS_JOB.kind, APPWRAPPER.kind, MINICLUSTER.kind, *queued))
        raise MissingError(
            missing.message, fix=f"known kinds: {known}; others where a worker runs them"
        ) from None
    elsewhere = await dispatch.elsewhere(manager_of(session), workload)
    if not elsewhere:
        dispatch.dispatch_of(workload, {})
    if cli.output.structured:
        cli.output.data({"name": name, "namespace": session.namespace} | elsewhere)
    else:
        cli.output.lines([Text(dispatch.job_name(workload), "bold"), *_elsewhere_view(elsewhere)])


def _elsewhere_view(elsewhere: dict[str, dict[str, str]]) -> list[Text]:
    facts = [(f"{label}:", text) for label, text in elsewhere.get("here", {}).items()]
    facts += [(f"On {worker}:", text) for worker, text in elsewhere.get("workers", {}).items()]
    return section("On other clusters", table((), facts))


def view(job: Obj, explanation: Explanation, now: datetime, *, width: int | None) -> list[Text]:
    lines = [headline(job), Text(explanation.verdict)]
    inner = width and width - 2
    lines += section("Why", [Text(line) for line in explanation.because])
    if explanation.ahead is not None:
        place = f"Place {len(explanation.ahead) + 1} of {explanation.in_line}"
        first = f", after {', '.join(explanation.ahead[-3:])}" if explanation.ahead else ""
        lines += section("In the queue", [Text(place + first)])
    if explanation.holders:
        header = ("NAME", "PHASE", "CLUSTER", "OWNER", "EXCLUSIVE", "FOR")
        lines += section("On these clusters", table(header, _holders(explanation.holders, now), width=inner))
    if explanation.quota and explanation.quota.lines:
        header = ("FLAVOR", "RESOURCE", "ASKS", "FREE", "USED", "QUOTA")
        lines += section("Quota", table(header, rows(explanation.quota), width=inner))
    return lines + section("Try", [Text(line) for line in explanation.advice])


def _estimate(
    typical: Typical | None, now: datetime, facts: WaitFacts, explanation: Explanation
) -> list[Text]:
    if typical is None:
        return []
    from fournos.history.estimates import sentence

    return section("Estimate", [Text(sentence(typical, now, facts.place, explanation.kept))])


def _holders(holders: Sequence[Obj], now: datetime) -> list[tuple[str | Text, ...]]:
    return [
        (
            str(key_of(holder)),
            phase_text(phase_of(holder)),
            str(status_of(holder).get("cluster")),
            str(spec_of(holder).get("owner") or "-"),
            "yes" if spec_of(holder).get("exclusive", True) else "no",
            between((status_of(holder).get("phaseTimes") or {}).get("admitted"), "", now),
        )
        for holder in holders
    ]


async def queue(
    cli: Cli,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUEUE]",
            help="Name of a LocalQueue; default: FOURNOS_KUEUE_LOCAL_QUEUE_NAME, or fournos-queue.",
            autocompletion=completion(LOCAL_QUEUE),
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show a whole queue: who waits, of all namespaces that share it, in which order, and why each.

    \b
    fournos queue
    fournos queue gpu-queue -o json
    """
    async with cli.session() as session:
        facts = await gather_queue(session.api, session.namespace, name or cli.queue)
    waiting = entries(facts, cli.world.now())
    rows = [
        (
            str(entry.place or "-"),
            entry.namespace,
            entry.name if entry.kind == "FournosJob" else f"{entry.kind.lower()}/{entry.name}",
            entry.owner or "-",
            str(entry.priority),
            since(entry.since, cli.world.now()),
            entry.reason,
        )
        for entry in waiting
    ]
    cli.output.answer(
        [entry.as_data() for entry in waiting],
        ("PLACE", "NAMESPACE", "NAME", "OWNER", "PRIORITY", "FOR", "REASON"),
        rows,
        nothing=f"Nothing waits in {facts.base.queue_name}.",
        spare=("PRIORITY", "NAMESPACE", "OWNER"),
    )


EstimatedArgument = Annotated[
    str,
    typer.Argument(
        metavar="[NAME]",
        help="A job; without it, all jobs of the namespace that wait or run.",
        autocompletion=complete_name,
        callback=bare_name,
        show_default=False,
    ),
]


async def estimate(cli: Cli, name: EstimatedArgument = "") -> None:
    """Say how long a job has run or where it waits, and how long runs of its kind took.

    That is the median of the newest comparable runs in the history. A waiting job starts about as many times
    that length from now as its place in the queue, if those before it take as long.

    \b
    fournos estimate
    fournos estimate llama-7b
    """
    async with cli.session() as session:
        history = session.history
        if name:
            job = await find_job(cli, session, name)
            jobs = [await history.estimate(uid_of(job))]
            facts = await gather(session.api, job, queue=cli.queue)
            places = {jobs[0].name: (facts.place, explain(facts, cli.world.now()).kept)}
        else:
            jobs = await history.estimates()
            places = await _places(cli, session) if any(not one.running_since for one in jobs) else {}
    if cli.output.structured:
        cli.output.data([api_data(one) for one in jobs])
        return
    from fournos.history.estimates import sentence

    for one in jobs:
        cli.output.say(sentence(one, cli.world.now(), *places.get(one.name, ())))
    if not jobs:
        cli.output.hint("No job waits or runs.")


async def _places(cli: Cli, session: CliSession) -> dict[str, tuple[int | None, str]]:
    """Returns job in the queue → its place, and what keeps it whatever that is."""
    queue = await gather_queue(session.api, session.namespace, cli.queue)
    line = entries(queue, cli.world.now())
    return {one.name: (one.place or None, one.kept) for one in line if one.namespace == session.namespace}
