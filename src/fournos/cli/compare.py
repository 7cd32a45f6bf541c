"""fournos diff and fournos open: compare two jobs, and open the page of a job's run."""

from __future__ import annotations

import webbrowser

from rich.text import Text

from fournos.cli.command import Cli
from fournos.cli.errors import Fail
from fournos.cli.exits import Exit
from fournos.cli.find import NameArgument, find_job
from fournos.insight.differences import differences, unified
from fournos.insight.values import name_of, phase_of, status_of


async def diff(cli: Cli, first: NameArgument, second: NameArgument) -> int:
    """Show how the specs of two jobs differ. Exit code 1 if they do.

    \b
    fournos diff nightly-x7k2m @last
    fournos diff nightly-x7k2m @last -o json      field by field, for scripts
    """
    async with cli.session() as session:
        jobs = [await find_job(cli, session, name) for name in (first, second)]
    changed = differences(*jobs)
    if cli.output.structured:
        cli.output.data([one.as_data() for one in changed])
    else:
        for line in unified(*jobs):
            cli.output.say(Text(line, style={"-": "red", "+": "green", "@": "dim"}.get(line[:1], "")))
    return Exit.FAILED if changed else Exit.OK


async def open_page(cli: Cli, name: NameArgument) -> None:
    """Open the page of a job's run in the Tekton Dashboard; without a terminal only its address is printed.

    \b
    fournos open @last
    """
    async with cli.session() as session:
        job = await find_job(cli, session, name)
    url = str(status_of(job).get("dashboardURL") or "")
    if not url.startswith(("https://", "http://")):
        raise Fail(
            f"{name_of(job)} has no page: it is {phase_of(job)}",
            fix="a run has one where the operator knows the dashboard (FOURNOS_TEKTON_DASHBOARD_URL)",
            code=Exit.NOT_FOUND,
        )
    cli.output.say(url)
    if cli.output.interactive:
        webbrowser.open(url)
