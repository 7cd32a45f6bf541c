"""fournos retry and matrix: new jobs from an existing job, or from variations of a manifest."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from fournos.api.kinds import FOURNOS_JOB
from fournos.cli.command import Cli
from fournos.cli.errors import Fail
from fournos.cli.find import NameArgument, find_job
from fournos.cli.options import Format
from fournos.cli.output import table
from fournos.cli.submit import RepeatOption, WatchOption, assignment, documents_of
from fournos.cli.watch import ENDS, follow_to_end
from fournos.client.jobs import AsyncJob
from fournos.client.submission import MATRIX_LABEL, axis
from fournos.insight.values import count

SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change a field of spec (or metadata.…); the value is YAML, an empty one removes the field. "
        "Repeatable.",
    ),
]


async def retry(
    cli: Cli, name: NameArgument, assignments: SetOption = None, watch: WatchOption = False
) -> int:
    """Run a job that has ended once more, as a new job.

    The output lists what the new job takes over and what is looked up again: hardware and secrets stay as
    Resolving filled them in, unless --set changes or removes them.

    \b
    fournos retry @last --watch
    fournos retry nightly-x7k2m --set priority=high
    """
    changes = dict(assignment(one) for one in assignments or ())
    async with cli.session() as session:
        original = await find_job(cli, session, name)
        job = await AsyncJob(session, original).retry(changes)
        if not cli.output.objects(FOURNOS_JOB, [job.raw], single=True):
            _tell(cli, job)
        if watch:
            return await follow_to_end(cli, session, job.raw, quiet=cli.output.form is not Format.TABLE)
    return 0


def _tell(cli: Cli, job: AsyncJob) -> None:
    came = job.repeats
    assert came is not None
    cli.output.say(f"{job.name} submitted to {job.namespace} with the spec of {came.of}")
    for title, names in (
        ("taken over", came.taken_over),
        ("changed", came.changed),
        ("looked up again", came.found_anew),
    ):
        if names:
            cli.output.say(f"  {title}: {', '.join(names)}")


async def matrix(
    cli: Cli,
    axes: Annotated[
        list[str],
        typer.Option(
            "--axis",
            metavar="PATH=VALUES",
            help="A field of spec (or metadata.…) and its values, in YAML, with commas. Repeatable.",
        ),
    ],
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE", help="The manifest; - is standard input.")
    ],
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="NAME", help=f"Value of the label {MATRIX_LABEL}; default: made up."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="So that the same command again makes no second jobs."),
    ] = None,
    repeat: RepeatOption = 1,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until all have ended; the exit code is then that of the worst."),
    ] = False,
) -> int:
    """Submit one job for each combination of values.

    All are checked before the first is submitted, and carry a label to find them by.

    \b
    fournos matrix -f job.yaml --axis hardware.gpuCount=1,2,4 --axis params.model=a,b --label sweep-1
    fournos list -l fournos.dev/matrix=sweep-1
    """
    documents = documents_of([file])
    if len(documents) != 1:
        raise Fail(f"{file} holds {len(documents)} jobs", fix="name a file with one")
    varied = dict(axis(one, option="--axis ") for one in axes)
    async with cli.session() as session:
        jobs = await session.submit_matrix(documents[0][1], varied, label=label, key=key, repeat=repeat)
        if wait:
            await session.wait_all(jobs, progress=lambda ended, of, job: _progress(cli, ended, of, job))
    if not cli.output.objects(FOURNOS_JOB, [job.raw for job in jobs]):
        rows = [
            [job.name, job.phase if wait else "submitted", *(_varied(job, path) for path in varied)]
            for job in jobs
        ]
        cli.output.lines(table((), rows, width=cli.output.width))
        chosen = jobs[0].raw["metadata"]["labels"][MATRIX_LABEL]
        cli.output.hint(f"{count(len(jobs), 'job')}: fournos list -l {MATRIX_LABEL}={chosen}")
    return max((ENDS[job.phase] for job in jobs), default=0) if wait else 0


def _varied(job: AsyncJob, path: str) -> str:
    from fournos.insight.manifests import field_of

    value = field_of(job.raw, path)
    return f"{path}={value if isinstance(value, str) else json.dumps(value)}"


def _progress(cli: Cli, ended: int, of: int, job: AsyncJob) -> None:
    cli.output.hint(f"{ended} of {of}: {job.name} {job.phase}")
