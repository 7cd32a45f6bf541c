"""fournos estimate: how long jobs have run or where they wait, and how long their kind takes."""

from __future__ import annotations

from typing import Annotated

import typer

from fournos.cli.command import Cli, CliSession
from fournos.cli.find import complete_name, find_job
from fournos.cli.stored import api_data, history_of
from fournos.insight.facts import gather
from fournos.insight.queues import entries, gather_queue
from fournos.insight.values import uid_of

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="[NAME]",
        help="A job; without it, all jobs of the namespace that wait or run.",
        autocompletion=complete_name,
        show_default=False,
    ),
]


async def estimate(cli: Cli, name: NameArgument = "") -> None:
    """Say how long a job has run or where it waits, and how long runs of its kind took.

    That is the median of the newest comparable runs in the history. A waiting job starts about as many times
    that length from now as its place in the queue, if those before it take as long.

    \b
    fournos estimate
    fournos estimate llama-7b
    """
    async with cli.session() as session:
        history = history_of(session)
        if name:
            job = await find_job(cli, session, name)
            jobs = [await history.estimate(uid_of(job))]
            facts = await gather(session.api, job, queue=cli.queue)
            places = {jobs[0].name: facts.place}
        else:
            jobs = await history.estimates()
            places = await _places(cli, session) if any(not one.running_since for one in jobs) else {}
    if cli.output.structured:
        cli.output.data([api_data(one) for one in jobs])
        return
    from fournos.history.estimates import sentence

    for one in jobs:
        cli.output.say(sentence(one, cli.world.now(), places.get(one.name)))
    if not jobs:
        cli.output.hint("No job waits or runs.")


async def _places(cli: Cli, session: CliSession) -> dict[str, int | None]:
    """Returns the names of the jobs that wait in the queue, and their places."""
    queue = await gather_queue(session.api, session.namespace, cli.queue)
    line = entries(queue, cli.world.now())
    return {one.name: one.place or None for one in line if one.namespace == session.namespace}
