"""fournos estimate: when waiting jobs start and end, and whether a job would start now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from fournos.cli.command import Cli, CliSession
from fournos.cli.errors import Fail
from fournos.cli.find import complete_name
from fournos.cli.output import table
from fournos.cli.stored import api_data, history_of
from fournos.cli.submit import FilesOption, SetOption, SetStringOption, documents_of, prepare
from fournos.insight import manifests as m

if TYPE_CHECKING:
    from fournos.history.estimates.models import Estimates

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="[NAME]",
        help="A job; without it, all waiting jobs of the namespace.",
        autocompletion=complete_name,
        show_default=False,
    ),
]


async def estimate(
    cli: Cli,
    name: NameArgument = "",
    files: FilesOption = None,
    assignments: SetOption = None,
    texts: SetStringOption = None,
) -> None:
    """Estimate when waiting jobs start and end, or whether a job would start now. Submits nothing.

    It plays the queue as it is, with the durations of comparable runs from the history. A time is the median;
    90% is the time by which nine of ten plays are there.

    \b
    fournos estimate
    fournos estimate llama-7b
    fournos estimate -f job.yaml --set hardware.gpuCount=4
    """
    if files or assignments or texts:
        if name:
            raise Fail("a job and a manifest cannot be estimated at once", fix="leave one out")
        await _would_start(cli, files, assignments, texts)
        return
    async with cli.session() as session:
        estimates = await _estimates(session, name)
    if cli.output.structured:
        cli.output.data(api_data(estimates))
    else:
        _show(cli, estimates)


async def _estimates(session: CliSession, name: str) -> Estimates:
    from fournos.history.estimates.models import Estimates

    history = history_of(session)
    if not name:
        return await history.estimates()
    return Estimates((await history.estimate(name),))


def _show(cli: Cli, estimates: Estimates) -> None:
    from fournos.history.estimates.text import when

    now = cli.world.now()
    if not estimates.jobs:
        cli.output.hint("No job waits.")
    else:
        header = ("PLACE", "NAME", "STARTS", "ENDS", "BASIS")
        rows: list[tuple[str | Text, ...]] = [
            (
                str(job.position or "-"),
                job.name,
                when(job.estimate.start, now) if job.position else "started",
                when(job.estimate.end, now),
                "; ".join(filter(None, (job.estimate.basis, job.estimate.reason))),
            )
            for job in estimates.jobs
        ]
        cli.output.lines(table(header, rows, width=cli.output.width))
    for score in estimates.accuracy:
        cli.output.hint(f"So far, {score}.")


async def _would_start(
    cli: Cli, files: list[str] | None, assignments: list[str] | None, texts: list[str] | None
) -> None:
    manifests = prepare(
        documents_of(files or ()),
        assignments=assignments or (),
        texts=texts or (),
        name=None,
        generate_name=None,
        owner=cli.me,
    )
    starts = []
    async with cli.session() as session:
        history = history_of(session)
        for manifest in manifests:
            m.place(manifest, asked=cli.common.namespace, otherwise=session.namespace)
            namespace = manifest["metadata"]["namespace"]
            starts.append(
                (
                    manifest,
                    await history.would_start(manifest["spec"], queue=cli.queue, namespace=namespace),
                )
            )
    if cli.output.structured:
        data: list[Any] = [api_data(one) for _, one in starts]
        cli.output.data(data[0] if len(data) == 1 else data)
        return
    from fournos.history.estimates.text import answer

    for manifest, start in starts:
        meta = manifest["metadata"]
        title = f"{meta.get('name') or meta.get('generateName')}: " if len(starts) > 1 else ""
        cli.output.say(title + answer(start, cli.world.now()))
