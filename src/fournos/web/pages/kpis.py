"""KPIs of many runs, by fields of theirs: a matrix as a heat map, a KPI by version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from fournos.api.phase import Phase
from fournos.history.results.models import RunValues, is_version
from fournos.insight.values import count, number
from fournos.web.charts import Plot, PlotLine
from fournos.web.rights import RUNS as RECORDED
from fournos.web.rights import home
from fournos.web.runs.filters import Filters, read
from fournos.web.runs.subject import address, compare_address, direction, part
from fournos.web.site import Call, Page

PATHS: Final = ("params", "env", "hardware")
"""The maps of a job's spec whose entries are fields to group by."""
SHADES: Final = 5
"""Shades of the style sheet; 0 is none."""
MOST: Final = 24
"""Groups of one field: with more it is not offered."""
_COMPARED: Final = 12
"""Runs of a group that a link compares at most."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value."""

    kpi: str
    value: float
    unit: str
    higher_is_better: bool | None
    fields: Mapping[str, str]
    namespace: str
    uid: str
    name: str


@dataclass(frozen=True, slots=True)
class Group:
    """The values of one cell."""

    middle: str
    """The median."""
    lowest: str
    highest: str
    number: int
    shade: int
    link: str
    """The address of the run, or of the comparison of the runs."""

    @property
    def text(self) -> str:
        """The spread in words."""
        if self.number == 1:
            return "1 value"
        return f"median of {count(self.number, 'value')} from {self.lowest} to {self.highest}"


@dataclass(frozen=True, slots=True)
class KpiTable:
    """A KPI by one field, or by two."""

    rows: Sequence[tuple[str, Sequence[Group | None]]]
    columns: Sequence[str]
    """The values of the second field; one empty text without one."""
    unit: str
    better: str
    plot: Plot | None = None
    """Median, lowest and highest value by the first field; None with two fields, or with one group."""


def samples(runs: Iterable[RunValues]) -> list[Sample]:
    """Returns the values of tests that succeeded, those of the oldest run first."""
    newest_first = [
        Sample(
            kpi.kpi_id,
            kpi.height,
            kpi.unit,
            kpi.higher_is_better,
            {**_fields(run), **{f"test.{name}": text for name, text in test.all_labels.items()}},
            run.run.identity.namespace,
            run.run.identity.uid,
            run.run.name,
        )
        for run in runs
        for test, kpi in run.values
        if test.success
    ]
    return newest_first[::-1]


def groupings(values: Sequence[Sample]) -> list[str]:
    """The fields by which the values form groups: the axes of a matrix first, then versions."""
    texts: dict[str, set[str]] = {}
    for sample in values:
        for name, text in sample.fields.items():
            texts.setdefault(name, set()).add(text)
    return sorted((name for name, each in texts.items() if 1 < len(each) <= MOST), key=_weight)


def table(values: Sequence[Sample], by: str, across: str = "") -> KpiTable:
    """Groups the values of one KPI by a field, and across another one."""
    rows, columns = _texts(values, by), _texts(values, across) if across else [""]
    cells: dict[tuple[str, str], list[Sample]] = {}
    for sample in values:
        place = sample.fields.get(by, ""), sample.fields.get(across, "") if across else ""
        cells.setdefault(place, []).append(sample)
    middles = {place: median(sample.value for sample in each) for place, each in cells.items()}
    low, high = min(middles.values(), default=0.0), max(middles.values(), default=0.0)

    def group(place: tuple[str, str]) -> Group | None:
        if place not in cells:
            return None
        each = sorted(sample.value for sample in cells[place])
        share = (middles[place] - low) / (high - low) if high > low else 0.5
        return Group(
            number(middles[place]),
            number(each[0]),
            number(each[-1]),
            len(each),
            1 + round(share * (SHADES - 1)),
            _link(cells[place]),
        )

    newest = values[-1] if values else None
    return KpiTable(
        [(row, [group((row, column)) for column in columns]) for row in rows],
        columns,
        newest.unit if newest else "",
        direction(newest.higher_is_better) if newest else "",
        _plot(cells, middles, rows, newest, by) if newest and not across and len(rows) > 1 else None,
    )


def _plot(
    cells: Mapping[tuple[str, str], Sequence[Sample]],
    middles: Mapping[tuple[str, str], float],
    rows: Sequence[str],
    newest: Sample,
    by: str,
) -> Plot:
    """Median, lowest and highest value of each group."""
    ends = {place: [sample.value for sample in each] for place, each in cells.items()}
    lines = {
        "median": middles,
        "lowest": {place: min(each) for place, each in ends.items()},
        "highest": {place: max(each) for place, each in ends.items()},
    }
    return Plot(
        f"{newest.kpi} by {by}",
        [
            PlotLine(name, [(float(place), line[row, ""]) for place, row in enumerate(rows)])
            for name, line in lines.items()
        ],
        y_title=newest.unit,
        labels=[row or "none" for row in rows],
    )


def _fields(run: RunValues) -> dict[str, str]:
    """Returns what a run can be grouped by, as paths of fields."""
    row = run.run
    fields = {"owner": row.owner, "cluster": row.target}
    fields |= {f"metadata.labels.{name}": text for name, text in row.labels.items()}
    return fields | {
        f"{path}.{name}": text
        for path in PATHS
        for name, value in _entries(run.fields.get(path))
        if (text := _text(value))
    }


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    yield from value.items() if isinstance(value, dict) else ()


def _text(value: Any) -> str:
    """A scalar as text; "" for anything else."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else ""


def _weight(name: str) -> tuple[int, str]:
    root, _, rest = name.partition(".")
    if root in PATHS:
        return 0, name
    if root == "test":
        return (1 if is_version(rest) else 2), name
    return 3, name


def _texts(values: Iterable[Sample], field: str) -> list[str]:
    """The values of a field: numbers by size, texts in the order in which runs first had them."""
    texts = list(dict.fromkeys(sample.fields.get(field, "") for sample in values))
    try:
        return sorted(texts, key=float)
    except ValueError:
        return texts


def _link(cell: Sequence[Sample]) -> str:
    runs = dict.fromkeys((sample.namespace, sample.uid) for sample in cell)
    if len(runs) == 1:
        return address(cell[0].namespace, cell[0].name, uid=cell[0].uid)
    return compare_address(*(f"{namespace}/{uid}" for namespace, uid in list(runs)[-_COMPARED:]))


# --- KPIs of many runs, by fields of theirs: a matrix as a heat map, a KPI by version ---------------------


RUNS: Final = 200
"""The newest runs that are read."""
_CHOSEN: Final = ("fingerprint", "namespace", "kpi", "by", "across")
"""The choices of the form, besides the filters of the list of jobs."""


async def gather(call: Call) -> Mapping[str, Any]:
    filters = read(call.query)
    asked = {name: call.query.get(name, "").strip()[:300] for name in _CHOSEN}
    namespace = asked["namespace"] or await home(call)
    may_read = await call.viewer.rights.may("get", RECORDED, namespace, subresource="documents")
    runs = await part(_read(call, filters, namespace, asked["fingerprint"], PATHS if may_read else ()))
    values = samples(runs.value or ())
    kpis = sorted({sample.kpi for sample in values})
    kpi = asked["kpi"] if asked["kpi"] in kpis else next(iter(kpis), "")
    values = [sample for sample in values if sample.kpi == kpi]
    fields = groupings(values)
    by = asked["by"] if asked["by"] in fields else next(iter(fields), "")
    across = asked["across"] if asked["across"] in fields and asked["across"] != by else ""
    if "across" not in call.query and not asked["by"]:  # a matrix with two axes shows both
        across = next((name for name in fields if name != by and name.startswith(PATHS)), "")
    given = {**filters.fields, "phase": "", "kpi": "", **{name: asked[name] for name in _CHOSEN[:2]}}
    return {
        "filters": filters,
        "given": {name: value for name, value in given.items() if value},
        "runs": runs,
        "number": len(runs.value or ()),
        "most": RUNS,
        "kpis": kpis,
        "kpi": kpi,
        "fields": fields,
        "by": by,
        "across": across,
        "table": table(values, by, across) if by else None,
        "values": len(values),
        "may_read": may_read,
    }


async def _read(
    call: Call, filters: Filters, namespace: str, fingerprint: str, by: tuple[str, ...]
) -> list[RunValues]:
    runs = call.viewer.client.history.values(
        by=by,
        limit=RUNS,
        namespace=namespace,
        phase=Phase.SUCCEEDED.value,
        fingerprint=fingerprint or (),
        since=filters.begin,
        until=filters.end,
        **filters.recorded,
    )
    return [run async for run in runs]


PAGE: Final = Page(
    name="kpis",
    title="KPIs",
    path="/kpis",
    gather=gather,
    in_nav=False,
    under="/jobs",
    shared=False,
)
