"""The KPIs of the rows of the list of jobs, as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.history import AsyncHistory
from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import Resource
from fournos.history.results.models import RunValues
from fournos.insight.values import number
from fournos.web.runs.filters import Filters
from fournos.web.runs.rows import ListRow

RESULTS: Final = Resource("history.fournos.dev", "v1", "Result", "results")
"""What rules of the history's API name."""
KpiValues = Mapping[str, tuple[str, ...]]
"""UID of a job → the values of the chosen KPIs for people, in their order; "" for none."""


async def kpi_values(
    history: AsyncHistory, filters: Filters, rows: Sequence[ListRow], namespace: str
) -> KpiValues:
    """Reads the KPIs of the filters for these rows, newest first.  Raises FournosError.

    `namespace` is "" for all namespaces.  The rows follow each other in the history, so that the time between
    them names them; runs between that are no rows, such as those of another phase, are read for nothing.
    """
    runs = history.values(
        kpis=filters.kpis,
        limit=2 * len(rows),
        everywhere=not namespace,
        namespace=namespace or None,
        kind=FOURNOS_JOB.kind,
        **filters.recorded,
        since=parse_time(rows[-1].submitted),
        until=parse_time(rows[0].submitted) + timedelta(seconds=1),
    )
    return {run.run.identity.uid: _texts(run, filters.kpis) async for run in runs if run.values}


def _texts(run: RunValues, kpis: Sequence[str]) -> tuple[str, ...]:
    """The values of a run; of several tests the lowest and the highest."""
    values: dict[str, list[float]] = {kpi: [] for kpi in kpis}
    for test, kpi in run.values:
        if test.success and kpi.kpi_id in values:
            values[kpi.kpi_id].append(kpi.height)
    ends = ({number(min(each)): None, number(max(each)): None} if each else {} for each in values.values())
    return tuple(map(" to ".join, ends))
