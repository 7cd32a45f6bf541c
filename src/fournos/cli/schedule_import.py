"""fournos schedule import: schedules from the CronJobs of the published dashboard."""

from __future__ import annotations

from typing import Annotated

import typer
import yaml

from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.cli.command import Cli
from fournos.cli.errors import Fail
from fournos.cli.exits import Exit
from fournos.cli.manifest import read
from fournos.engine.api.text import escaped
from fournos.engine.kube.resource import Obj
from fournos.insight.manifests import documents
from fournos.insight.schedule_import import CRON_JOB, MANAGED_SELECTOR, imported
from fournos.insight.values import name_of


async def import_schedules(
    cli: Cli,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Only these CronJobs.", show_default=False),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="CronJobs of a file; - is standard input."),
    ] = None,
    time_zone: Annotated[
        str,
        typer.Option("--time-zone", metavar="ZONE", help="Time zone of CronJobs that name none."),
    ] = "",
) -> int:
    """Print schedules for the CronJobs of the published dashboard. Changes nothing.

    What is not taken over is said of each. The exit code is 1 if one cannot be a schedule.

    \b
    fournos schedule import --time-zone Etc/UTC > schedules.yaml
    kubectl apply -f schedules.yaml           then delete the CronJobs
    """
    cron_jobs = await _cron_jobs(cli, file)
    missing = set(names or ()) - {name_of(each) for each in cron_jobs}
    if missing:
        raise Fail(f"no CronJob {', '.join(sorted(missing))}", fix="leave the name out", code=Exit.NOT_FOUND)
    results = [imported(each, time_zone) for each in cron_jobs if not names or name_of(each) in names]
    if not results:
        cli.output.hint(f"No CronJobs with the label {MANAGED_SELECTOR}.")
    for result in results:
        for note in result.notes:
            cli.output.warn(f"{result.name}{'' if result.manifest else ' is not imported'}: {note}")
    manifests = [result.manifest for result in results if result.manifest is not None]
    if not cli.output.objects(FOURNOS_SCHEDULE, manifests):
        texts = (yaml.safe_dump(manifest, sort_keys=False, width=110) for manifest in manifests)
        typer.echo(escaped("---\n".join(texts)), nl=False)
    return Exit.OK if len(manifests) == len(results) else Exit.FAILED


async def _cron_jobs(cli: Cli, file: str | None) -> list[Obj]:
    if file is not None:
        source = "standard input" if file == "-" else file
        return [each for each in documents(read(file), source) if each.get("kind") == CRON_JOB.kind]
    async with cli.session() as session:
        listed = await session.api.list(CRON_JOB, namespace=session.namespace, selector=MANAGED_SELECTOR)
    return listed.items
