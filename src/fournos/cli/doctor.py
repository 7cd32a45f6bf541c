"""fournos doctor: what of the cluster, its configuration and the caller's rights is not as it must be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from rich.text import Text

from fournos.cli.command import Cli
from fournos.cli.exits import Exit
from fournos.cli.output import table
from fournos.insight.doctor import examine
from fournos.insight.doctor_access import DoctorFinding, DoctorServer, ExaminedNamespaces, Level, faults
from fournos.insight.source import clusters_namespace
from fournos.insight.values import count

_STYLES: Final = {Level.OK: "green", Level.UNKNOWN: "dim", Level.WARNING: "yellow", Level.FAULT: "bold red"}


async def doctor(cli: Cli) -> int:
    """Look for what keeps jobs from running: versions, CRDs, queues, rights, webhooks, operator, history.

    Each fault is printed with its fix. Exit code 1 if there is a fault; a warning is none. What you may not
    read is "unknown". Nothing is changed.

    \b
    fournos doctor
    fournos doctor -n team -o json
    """
    async with cli.session() as session:
        place = ExaminedNamespaces(session.namespace, clusters_namespace(), cli.queue)
        # The connection of a command is a Client, which has more operations than an Api.
        findings = await examine(cast(DoctorServer, session.api), place, cli.world.now())
    wrong = faults(findings)
    if cli.output.structured:
        cli.output.data([one.as_data() for one in findings])
    else:
        cli.output.lines(view(findings, width=cli.output.width))
        cli.output.hint(f"{count(wrong, 'fault')}, {count(len(findings), 'check')}.")
    return Exit.FAILED if wrong else Exit.OK


def view(findings: Sequence[DoctorFinding], *, width: int | None) -> list[Text]:
    """Returns the findings as a table, each fault and warning with its fix below."""
    rows = [
        (one.area, one.what, Text(one.level.value, style=_STYLES[one.level]), one.text) for one in findings
    ]
    head, *lines = table(("AREA", "WHAT", "STATE", "DETAIL"), rows, width=width)
    result = [head]
    for finding, line in zip(findings, lines, strict=True):
        result.append(line)
        if finding.fix:
            result.append(Text.assemble(("  Fix: ", "bold"), finding.fix))
    return result
