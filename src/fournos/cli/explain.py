"""fournos explain: why a job waits, and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from fournos.api.phase import ACTIVE
from fournos.cli.command import Cli
from fournos.cli.details import section
from fournos.cli.find import NameArgument, find_job
from fournos.cli.formatting import phase_text
from fournos.cli.output import table
from fournos.cli.progress import headline
from fournos.cli.stored import api_data, estimated
from fournos.insight.explanation import Explanation, as_data
from fournos.insight.facts import gather
from fournos.insight.quota import rows
from fournos.insight.reasons import explain
from fournos.insight.values import Obj, between, key_of, phase_of, spec_of, status_of

if TYPE_CHECKING:
    from fournos.history.estimates import Typical


async def explain_job(cli: Cli, name: NameArgument) -> None:
    """Say why a job waits, and what to do about it.

    It looks at the job, its Workload, the queues and their quota, the jobs on the same cluster and those
    ahead in the queue.

    \b
    fournos explain @last
    fournos explain nightly-x7k2m -o json
    """
    async with cli.session() as session:
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
    if cli.output.structured:
        data = as_data(job, explanation)
        cli.output.data(data if predicted is None else data | {"estimate": api_data(predicted)})
    else:
        lines = view(job, explanation, cli.world.now(), width=cli.output.width)
        cli.output.lines(lines + _estimate(predicted, cli.world.now(), facts.place))


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


def show_explanation(cli: Cli, obj: Obj, explanation: Explanation) -> None:
    """Prints why an object waits."""
    if cli.output.structured:
        cli.output.data(as_data(obj, explanation))
    else:
        cli.output.lines(view(obj, explanation, cli.world.now(), width=cli.output.width))


def _estimate(typical: Typical | None, now: datetime, place: int | None) -> list[Text]:
    if typical is None:
        return []
    from fournos.history.estimates import sentence

    return section("Estimate", [Text(sentence(typical, now, place))])


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
