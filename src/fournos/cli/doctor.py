"""fournos doctor: what of the cluster, its configuration and the caller's rights is not as it must be."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, cast

import aiohttp
from rich.text import Text

from fournos.cli.command import Cli
from fournos.cli.exits import Exit
from fournos.cli.output import table
from fournos.insight.doctor.examine import examine
from fournos.insight.doctor.facts import DoctorServer, ExaminedNamespaces, VaultHealth, gather
from fournos.insight.doctor.finding import DoctorFinding, Level, faults
from fournos.insight.environment import clusters_namespace
from fournos.insight.values import count

_STYLES: Final = {Level.OK: "green", Level.UNKNOWN: "dim", Level.WARNING: "yellow", Level.FAULT: "bold red"}
_VAULT_SECONDS: Final = 5


async def doctor(cli: Cli) -> int:
    """Look for what keeps jobs from running: versions, CRDs, Kueue, queues, rights, webhooks, clocks.

    Each fault is printed with its fix. Exit code 1 if there is a fault; a warning is none. What you may not
    read is "unknown". Vault is asked where VAULT_ADDR is set. Nothing is changed.

    \b
    fournos doctor
    fournos doctor -n team -o json
    """
    vault = await vault_health(os.environ.get("VAULT_ADDR", ""))
    async with cli.session() as session:
        place = ExaminedNamespaces(session.namespace, clusters_namespace(), cli.queue)
        # The connection of a command is a Client, which has more operations than an Api.
        facts = await gather(cast(DoctorServer, session.api), place, now=cli.world.now, vault=vault)
    findings = examine(facts, cli.world.now())
    wrong = faults(findings)
    if cli.output.structured:
        cli.output.data([one.as_data() for one in findings])
    else:
        cli.output.lines(view(findings, width=cli.output.width))
        cli.output.hint(f"{count(wrong, 'fault')}, {count(len(findings), 'check')}.")
    return Exit.FAILED if wrong else Exit.OK


async def vault_health(address: str) -> VaultHealth | None:
    """Asks Vault for its health, without a token; None without an address."""
    if not address:
        return None
    timeout = aiohttp.ClientTimeout(total=_VAULT_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as http,
            http.get(f"{address.rstrip('/')}/v1/sys/health", allow_redirects=False) as answer,
        ):
            return VaultHealth(address, answer.status)
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return VaultHealth(address, 0)


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
