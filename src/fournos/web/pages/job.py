"""A job: what it is, did and measured, and why it waits; live, or from the history when it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import orjson

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.formats import dump
from fournos.engine.kube.resource import Obj
from fournos.insight.differences import leaves
from fournos.insight.explanation import Explanation
from fournos.insight.facts import gather as gather_facts
from fournos.insight.failure import Failure
from fournos.insight.overview import KINDS
from fournos.insight.quota import rows as quota_rows
from fournos.insight.reasons import explain
from fournos.insight.selection import cluster_of
from fournos.insight.values import (
    created,
    display_name,
    hardware,
    is_terminal,
    name_of,
    one_line,
    phase_of,
    spec_of,
    status_of,
)
from fournos.web.charts.gantt import gantt
from fournos.web.recorded_namespaces import RUNS
from fournos.web.routes import Call, Page
from fournos.web.runs.courses import courses
from fournos.web.runs.estimates import of_job
from fournos.web.runs.failing import error_line, failed
from fournos.web.runs.measured import shown_results
from fournos.web.runs.offers import offers
from fournos.web.runs.parts import part
from fournos.web.runs.reading import Parts, parts
from fournos.web.runs.spans import attempts, lanes, waiting_lane, waits
from fournos.web.runs.subject import JobSubject, subject
from fournos.web.runs.texts import text

_LONGEST_YAML: Final = 2**17
"""Bytes of a job as JSON; a longer one is shown as JSON, which takes a hundredth of the time."""
_RIGHTS: Final = {
    "stop": ("patch", FOURNOS_JOB, ""),
    "hold": ("patch", FOURNOS_JOB, ""),
    "unhold": ("patch", FOURNOS_JOB, ""),
    "retry": ("create", FOURNOS_JOB, ""),
    "delete": ("delete", FOURNOS_JOB, ""),
    "keep": ("update", RUNS, "keep"),
    "release": ("delete", RUNS, "keep"),
    "forget": ("delete", RUNS, ""),
}
"""Action → the right that it needs."""


async def gather(call: Call) -> Mapping[str, Any]:
    about = await subject(call)
    parts_read, allowed, estimate = await asyncio.gather(
        parts(call, about), rights(call, about), of_job(call, about)
    )
    job, recorded = about.raw, parts_read.recorded.value
    first = failed(job, parts_read)
    explained, line = await asyncio.gather(
        part(_explained(call, about, parts_read)), error_line(call, about, first)
    )
    explanation = explained.value
    ledger = recorded.waits if recorded else ()
    drawn = [*waiting_lane(ledger), *lanes(job, attempts(job, parts_read.tasks.value or {}), call.now)]
    mark = recorded.kept if recorded else None
    run = recorded.run.identity.text if recorded else ""
    course = courses(parts_read.trends.value, run, about.namespace)
    absent = {"keep", "release", "forget"} if recorded is None else {"keep" if mark else "release"}
    return {
        "about": about,
        "state": phase_of(job),
        "message": one_line(status_of(job).get("message")),
        "submitted": created(job),
        "dashboard": dashboard(job),
        "name": name_of(job),
        "namespace": about.namespace,
        "header": header(job),
        "offers": offers(about, allowed - absent),
        "resubmits": "retry" in allowed,
        "gantt": gantt(drawn, call.now),
        "waits": waits(ledger),
        "explained": explained,
        "explanation": explanation,
        "estimate": estimate,
        "quota": quota_rows(explanation.quota) if explanation and explanation.quota else (),
        "failed": first,
        "error_line": line,
        "because": unsaid(explanation, first, line),
        "ended": is_terminal(job),
        "kept": mark,
        "parts": parts_read,
        "course": course,
        "measured": parts_read.results.map(lambda records: shown_results(records, course)),
        "spec": [(path, text(value)) for path, value in leaves(spec_of(job))],
        "provenance": parts_read.provenance.map(provenance),
        "yaml": await asyncio.to_thread(as_yaml, job),
    }


def header(job: Obj) -> list[tuple[str, str]]:
    """Returns label and text of the facts at the top of the page."""
    spec, status = spec_of(job), status_of(job)
    engine = spec.get("executionEngine") or {}
    rows = (
        ("Owner", spec.get("owner")),
        ("Cluster", cluster_of(job)),
        ("Hardware", hardware(job)),
        ("Pipeline", None if spec.get("lockOnly") else spec.get("pipeline")),
        ("Project", next((one.get("project") for one in engine.values() if isinstance(one, Mapping)), None)),
        ("Attempt", status.get("attempt")),
        ("Display name", display_name(job) if display_name(job) != name_of(job) else None),
    )
    return [(label, str(value)) for label, value in rows if value not in (None, "", "-")]


def dashboard(job: Obj) -> str:
    """The address of the run in the Tekton Dashboard; "" for anything that is not a web address."""
    found = str(status_of(job).get("dashboardURL") or "")
    return found if found.startswith(("https://", "http://")) else ""


async def rights(call: Call, about: JobSubject) -> set[str]:
    """The names of the actions that the person may do with the job."""
    may = call.viewer.rights.may
    allowed = await asyncio.gather(
        *(may(verb, kind, about.namespace, subresource=sub) for verb, kind, sub in _RIGHTS.values())
    )
    return {name for name, right in zip(_RIGHTS, allowed, strict=True) if right}


async def _explained(call: Call, about: JobSubject, job_parts: Parts) -> Explanation | None:
    if not about.live:
        return None
    facts = await gather_facts(call.viewer.source, about.raw, queue=call.viewer.client.queue_name)
    if job_parts.children.value:
        facts = replace(facts, found=job_parts.children.value)
    return explain(facts, call.now)


def unsaid(explanation: Explanation | None, first: Failure | None, line: str) -> list[str]:
    """Returns the reasons of the verdict, without the one that is shown above it as the first error."""
    said = tuple(filter(None, (line, first.message if first else "")))
    return [one for one in (explanation.because if explanation else ()) if not one.endswith(said)]


def provenance(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns path and text of each fact of the provenance.

    The whole Pipeline and its Tasks are left out: they are in the YAML of the history's API.
    """
    short = {name: value for name, value in document.items() if name != "pipelineSpec"}
    tasks = document.get("tasks") or {}
    short["tasks"] = {name: {**task, "taskSpec": None} for name, task in tasks.items()}
    return [(path, text(value)) for path, value in leaves(short) if value not in (None, "", [], {})]


def as_yaml(job: Obj) -> str:
    meta = {name: value for name, value in job["metadata"].items() if name != "managedFields"}
    shown = {**job, "metadata": meta}
    body = orjson.dumps(shown, option=orjson.OPT_INDENT_2)
    return body.decode() if len(body) > _LONGEST_YAML else dump(shown, width=120)


PAGE: Final = Page(
    name="job",
    title="{name}",
    path="/jobs/{namespace}/{name}",
    gather=gather,
    watched=KINDS,
    fresh=5.0,
    in_nav=False,
    shared=False,
    command="fournos get -n {namespace} {name}",
)
