"""An export as one HTML file that needs nothing else: no script, no foreign host.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

import yaml

from fournos.history import offline, plots
from fournos.history.compare.differences import flat
from fournos.history.export.model import Export
from fournos.history.records import Document
from fournos.history.regressions.series import labels_text
from fournos.history.results.models import Kpi, ResultRecord
from fournos.insight.values import NEW, moment, short

_MOST: Final = 100
"""KPIs that are drawn, and bars of a plot."""
_CURVES: Final = 8
"""Most curves of a plot: more cannot be told apart."""


def as_html(export: Export) -> str:
    """The whole document."""
    run = export.run
    body = [
        offline.paragraph(f"{run.kind} of namespace {run.identity.namespace}, as of {_time(export.made_at)}"),
        offline.table(list(_facts(export))),
    ]
    sections = (
        ("Timeline", _timeline(export)),
        ("What it waited for", _waits(export)),
        ("Results", _results(export)),
        ("Artifacts", _artifacts(export)),
        ("Provenance", _flat_table(export, Document.PROVENANCE)),
        ("Quota", _flat_table(export, Document.QUOTA)),
        ("Events", _events(export)),
        ("Spec", _spec(export)),
        ("Logs", _logs(export)),
    )
    for title, content in sections:
        if found := list(content):
            body += [offline.heading(title), *found]
    return offline.document(run.display_name or run.name, body)


def _facts(export: Export) -> Iterator[tuple[str, str]]:
    """The rows of the first table; what the run does not have is left out."""
    run = export.run
    yield "run", run.name
    gpus = f"{run.gpu_count} x {run.gpu_type}" if run.gpu_count else ""
    rows = {
        "phase": run.phase or NEW,
        "message": run.message,
        "failure": run.failure,
        "owner": run.owner,
        "cluster": run.target,
        "pipeline": run.pipeline,
        "project": run.project,
        "GPUs": gpus,
        "attempts": str(run.attempts or ""),
        "submitted": _time(run.submitted_at),
        "started": _time(run.ran_from),
        "ended": _time(run.ended_at),
        "fingerprint": run.fingerprint,
        "labels": labels_text(run.labels),
        "UID": run.identity.uid,
        "recorded in": run.identity.cluster,
    }
    yield from ((name, value) for name, value in rows.items() if value)


def _timeline(export: Export) -> Iterator[str]:
    run = export.run
    end = run.ended_at or export.made_at
    marks = [
        ("submitted", run.submitted_at),
        ("queued", run.queued_at),
        ("admitted", run.admitted_at),
        ("running", run.ran_from),
    ]
    known = [(name, at) for name, at in marks if at is not None]
    ends = [*(at for _, at in known[1:]), end]
    spans = [(name, at, max(at, until)) for (name, at), until in zip(known, ends, strict=True)]
    for attempt in export.documents.get(Document.TASKS) or ():
        for task in attempt.get("tasks") or ():
            started = moment(task.get("started"))
            if started is not None:
                finished = moment(task.get("finished")) or end
                spans.append((f"task {task.get('name')}", started, max(started, finished)))
    lengths = [short(until - at) for _, at, until in spans]
    yield plots.spans("Phases and tasks", spans, lengths)


def _waits(export: Export) -> Iterator[str]:
    rows = [
        (
            _time(wait.start),
            short((wait.end or export.made_at) - wait.start),
            wait.cause.value,
            wait.text,
        )
        for wait in export.waits
    ]
    if rows:
        yield offline.table([("from", "for", "cause", "text"), *rows])


def _results(export: Export) -> Iterator[str]:
    for problem in export.documents.get(Document.PROBLEMS) or ():
        yield offline.paragraph(f"Not stored: {problem}", "warning")
    rows = [
        (
            _test(record),
            kpi.kpi_id,
            f"{len(kpi.values)} points" if kpi.is_curve else plots.number(kpi.value),
            kpi.measured_in,
            _direction(kpi),
            "" if record.success else f"failed: {record.message}".removesuffix(": "),
        )
        for record in export.results
        for kpi in record.kpis
    ]
    if rows:
        yield offline.table([("test", "KPI", "value", "unit", "better is", "state"), *rows])
    yield from _plots(export.results)


def _plots(results: Iterable[ResultRecord]) -> Iterator[str]:
    """A plot for each KPI: its curves, or its values if several tests have one."""
    by_kpi: dict[tuple[str, str], list[tuple[str, Kpi]]] = {}
    for record in results:
        for kpi in record.kpis:
            by_kpi.setdefault((kpi.kpi_id, kpi.measured_in), []).append((_test(record), kpi))
    for (name, unit), kpis in list(by_kpi.items())[:_MOST]:
        title = f"{name}, {unit}" if unit else name
        drawn = [(test, kpi.values) for test, kpi in kpis if kpi.is_curve]
        values = [(test, kpi.value) for test, kpi in kpis if kpi.value is not None]
        if drawn:
            more = f" (the first {_CURVES} of {len(drawn)} tests)" if len(drawn) > _CURVES else ""
            yield plots.curves(title + more, drawn[:_CURVES])
        if len(values) > 1:
            more = f" (the first {_MOST} of {len(values)} tests)" if len(values) > _MOST else ""
            yield plots.bars(title + more, values[:_MOST])
    if len(by_kpi) > _MOST:
        yield offline.paragraph(f"Of {len(by_kpi)} KPIs the first {_MOST} are drawn; the table has all.")


def _test(record: ResultRecord) -> str:
    labels = [f"{name}={value}" for name, value in record.labels.items()]
    return " ".join([*labels, *([record.run_id] if record.run_id else [])]) or "-"


def _direction(kpi: Kpi) -> str:
    return "-" if kpi.higher_is_better is None else "higher" if kpi.higher_is_better else "lower"


def _artifacts(export: Export) -> Iterator[str]:
    if export.artifacts:
        rows = [(one.path, str(one.size), one.sha256) for one in export.artifacts]
        yield offline.table([("path", "bytes", "SHA-256"), *rows])


def _flat_table(export: Export, name: Document) -> Iterator[str]:
    found = export.documents.get(name)
    if found:
        yield offline.table([("field", "value"), *flat(found)])


def _events(export: Export) -> Iterator[str]:
    columns = ("at", "type", "reason", "kind", "name", "count", "note")
    rows = [
        tuple(str(one.get(name) or "") for name in columns)
        for one in export.documents.get(Document.EVENTS) or ()
    ]
    if rows:
        yield offline.table([columns, *rows])


def _spec(export: Export) -> Iterator[str]:
    spec: Any = (export.documents.get(Document.OBJECT) or {}).get("spec")
    if spec:
        shown = yaml.safe_dump(spec, sort_keys=False, allow_unicode=True, width=110)
        yield offline.preformatted(shown)


def _logs(export: Export) -> Iterator[str]:
    for log in export.logs:
        yield offline.heading(log.name, 3)
        if log.cut:
            yield offline.paragraph(log.cut, "warning")
        yield offline.preformatted(log.text)


def _time(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at is not None else ""
