"""Runs for tests of the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from fournos.history.compare.comparison import RowKey
from fournos.history.logs.stored import ContainerLog
from fournos.history.records import ALL_RUNS, Ending, Identity, Query, Run, RunFilter, body
from fournos.history.results.models import Kpi, Test, series_id

CLUSTER = "5a1f6c0e-cluster"
NAMESPACE_UID = "77aa-namespace"
START = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def a_run(number: int = 0, **fields: Any) -> Run:
    """An open FournosJob, submitted `number` seconds after START."""
    run = Run(
        identity=Identity(CLUSTER, "bench", f"uid-{number}"),
        kind="FournosJob",
        name=f"job-{number}",
        namespace_uid=NAMESPACE_UID,
        submitted_at=at(number),
        observed_at=at(number + 1),
        resource_version=100,
        phase="Pending",
    )
    return replace(run, **fields)


def ended(run: Run, after: float = 60, **fields: Any) -> Run:
    """The same run, succeeded."""
    end = run.submitted_at + timedelta(seconds=after)
    changes = {"phase": "Succeeded", "ended_at": end, "observed_at": end, "ending": Ending.OBSERVED}
    return replace(run, **{"resource_version": run.resource_version + 10, **changes, **fields})


def everything(uid: str = "", **filters: Any) -> Query:
    """A query over all namespaces; its texts may be any."""
    return Query(ALL_RUNS, filters=RunFilter.model_construct(**filters), uid=uid)


def keep_logs(stored: dict[str, bytes], run: str, logs: dict[ContainerLog, str]) -> None:
    """Has the history's API answer with these logs of the run at the path `run`."""
    stored[f"{run}/logs"] = body(list(logs), list[ContainerLog])
    stored.update({f"{run}/logs/{log.pod}/{log.container}": text.encode() for log, text in logs.items()})


def measured_value(
    kpi_id: str,
    value: float,
    unit: str = "",
    higher_is_better: bool | None = None,
    labels: Mapping[str, str] | None = None,
    *,
    success: bool = True,
) -> Test:
    """A test with one KPI."""
    kpi = Kpi(kpi_id=kpi_id, value=value, unit=unit, higher_is_better=higher_is_better)
    return Test(labels=dict(labels or {}), success=success, kpis=(kpi,))


def by_series(earlier: Mapping[RowKey, Sequence[Kpi]], fingerprint: str = "") -> dict[str, list[float]]:
    """The values of earlier runs as a comparison takes them."""
    values: dict[str, list[float]] = {}
    for key, kpis in earlier.items():
        for kpi in kpis:
            series = series_id(
                fingerprint, Test(labels=dict(key.labels)), kpi.model_copy(update={"kpi_id": key.kpi_id})
            )
            values.setdefault(series, []).append(kpi.height)
    return values
