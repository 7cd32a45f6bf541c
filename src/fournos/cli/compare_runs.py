"""fournos compare: what differs between runs, and what they measured."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fournos.cli.command import Cli
from fournos.cli.errors import Fail
from fournos.cli.exits import Exit
from fournos.cli.stored import history_of


class Form(StrEnum):
    """How a comparison is written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "md"
    HTML = "html"


class Reason(StrEnum):
    """What makes `compare` fail."""

    REGRESSION = "regression"


async def compare(
    cli: Cli,
    jobs: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB JOB…",
            show_default=False,
            help="Names or UIDs; the first is the reference. They may be gone.",
        ),
    ],
    form: Annotated[
        Form, typer.Option("--format", metavar="FORMAT", help="text, json, csv, md or html.")
    ] = Form.TEXT,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write it here; without it, to stdout.")
    ] = None,
    across: Annotated[
        bool, typer.Option("--across", help="Judge runs that measured different things all the same.")
    ] = False,
    fail_on: Annotated[
        Reason | None,
        typer.Option("--fail-on", metavar="regression", help="Exit with code 1 if a KPI is worse."),
    ] = None,
) -> int:
    """Compare runs: first what differs, then their KPIs within the noise of comparable runs.

    \b
    fournos compare llama-monday llama-tuesday
    fournos compare base candidate --fail-on regression
    fournos compare base candidate --format html --to report.html
    """
    if len(jobs) < 2:
        raise Fail("A comparison needs two jobs or more", fix="fournos compare REFERENCE OTHER")
    from fournos.history.compare.formats import FORMATS

    async with cli.session() as session:
        found = await history_of(session).compare(*jobs, across=across)
    text = FORMATS["json" if cli.output.structured else form.value](found)
    if to is None:
        for line in text.removesuffix("\n").split("\n"):
            cli.output.say(line)
    else:
        to.write_text(text, encoding="utf-8")
        cli.output.hint(f"{to}: {len(text)} characters")
    return Exit.FAILED if fail_on is Reason.REGRESSION and found.regressed else Exit.OK
