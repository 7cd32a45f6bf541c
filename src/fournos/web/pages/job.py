"""A job: what it is, did and measured, why it waits, and what its buttons do; live, or from the history."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import orjson

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.jobs import AsyncJob
from fournos.history.artifacts import ArtifactError, checked_path
from fournos.history.estimates import Typical, sentence
from fournos.insight.explanation import Explanation
from fournos.insight.facts import gather as gather_facts
from fournos.insight.failure import Failure
from fournos.insight.fleet import KINDS
from fournos.insight.jobs import JobChange, cluster_of
from fournos.insight.manifests import dump
from fournos.insight.quota import rows as quota_rows
from fournos.insight.reasons import explain
from fournos.insight.values import (
    Obj,
    created,
    display_name,
    hardware,
    is_terminal,
    is_terminating,
    leaves,
    name_of,
    one_line,
    phase_of,
    spec_of,
    status_of,
)
from fournos.web.errors import PageError
from fournos.web.rights import RUNS
from fournos.web.runs.reading import Parts, error_line, failed, parts
from fournos.web.runs.results import MOST, courses, curve
from fournos.web.runs.subject import JobSubject, address, part, subject, text
from fournos.web.runs.timeline import gantt, lanes, waiting_lane
from fournos.web.site import Action, Call, Content, Done, Download, Page, Written


@dataclass(frozen=True, slots=True)
class JobOffer:
    """An action: a button that opens a question with a form.  It works without scripts, too."""

    name: str
    """Of the action and the last part of its path."""
    label: str
    question: str
    button: str
    command: str
    danger: bool = False
    fields: dict[str, str] = field(default_factory=dict)
    asks: str = ""
    """The label of a text that may be given; its field is `reason`."""


def offers(about: JobSubject, allowed: Set[str]) -> list[JobOffer]:
    """The actions that make sense now; `allowed` has the names of those that the person may do."""
    return [one for one in _all(about) if one.name in allowed]


def _all(about: JobSubject) -> Iterator[JobOffer]:
    job, name = about.raw, name_of(about.raw)
    words = f"-n {shlex.quote(about.namespace)} {shlex.quote(name)}"
    ended, going = is_terminal(job), is_terminating(job)
    if about.live and not ended and not going:
        yield from _interruptions(job, name, words)
    if ended:
        yield JobOffer(
            "retry",
            "Retry",
            "The same spec is submitted as a new job. The Pipeline and images with tags are resolved again.",
            f"Retry {name}",
            f"fournos retry {words}",
        )
    yield JobOffer(
        "keep",
        "Keep",
        "The history never lets this run expire, with its logs, results and artifacts.",
        f"Keep {name}",
        "",
        asks="Reason",
    )
    yield JobOffer("release", "Let expire", "A mark of Keep is taken away.", f"Let {name} expire", "")
    if about.live and not going:
        yield JobOffer(
            "delete",
            "Delete",
            "The job and everything made for it are deleted; what runs is stopped first. "
            "The history keeps what it has recorded.",
            f"Delete {name}",
            f"fournos delete {words}",
            danger=True,
        )
    if not about.live:
        yield JobOffer(
            "forget",
            "Delete from the history",
            "The run is deleted permanently, with its logs, results and artifacts.",
            f"Delete {name} permanently",
            "",
            danger=True,
        )


def _interruptions(job: Obj, name: str, words: str) -> Iterator[JobOffer]:
    """The actions of a job that has not ended."""
    if spec_of(job).get("shutdown") not in ("Stop", "Terminate"):
        yield JobOffer(
            "stop",
            "Stop",
            "Its run is stopped, its finally tasks run, and its quota is given back.",
            f"Stop {name}",
            f"fournos stop {words}",
        )
    if spec_of(job).get("shutdown") != "Terminate":
        yield JobOffer(
            "stop",
            "Stop now",
            "Its run is ended at once; its finally tasks do not run.",
            f"Stop {name} now",
            f"fournos stop --now {words}",
            danger=True,
            fields={"now": "yes"},
        )
    if not spec_of(job).get("shutdown"):
        yield _hold(job, name, words)


def _hold(job: Obj, name: str, words: str) -> JobOffer:
    if spec_of(job).get("suspend"):
        question = "The job is queued again."
        return JobOffer("unhold", "Release", question, f"Release {name}", f"fournos release {words}")
    return JobOffer(
        "hold",
        "Hold",
        "The job leaves the queue until it is released. A run that is under way is stopped first; "
        "its finally tasks run.",
        f"Hold {name}",
        f"fournos hold {words}",
    )


# --- what its buttons do --------------------------------------------------------------------------


async def found(call: Call, form: Mapping[str, str]) -> JobSubject:
    """The job that a form is about: the one with its `uid`, read with the person's own rights."""
    about = replace(call, query={"uid": form.get("uid", "")})
    return await subject(about, source=call.viewer.client.api)


def _handle(call: Call, about: JobSubject) -> AsyncJob:
    return AsyncJob(call.viewer.client, about.raw)


async def _live(call: Call, form: Mapping[str, str]) -> tuple[JobSubject, AsyncJob]:
    about = await found(call, form)
    if not about.live:
        raise PageError(
            409, "Gone", f"The job {name_of(about.raw)} is gone.", "Its page shows what is recorded."
        )
    return about, _handle(call, about)


async def stop(call: Call, form: Mapping[str, str]) -> Done:
    about, job = await _live(call, form)
    verdict = await job.stop(now=form.get("now") == "yes")
    message = verdict.message.partition(" Follow it:")[0]
    return Done(about.address(), message, Written(FOURNOS_JOB, job.raw))


async def hold(call: Call, form: Mapping[str, str]) -> Done:
    return await _suspended(call, form, AsyncJob.hold)


async def unhold(call: Call, form: Mapping[str, str]) -> Done:
    return await _suspended(call, form, AsyncJob.release)


async def _suspended(
    call: Call, form: Mapping[str, str], act: Callable[[AsyncJob], Awaitable[JobChange]]
) -> Done:
    about, job = await _live(call, form)
    verdict = await act(job)
    message = verdict.message.partition(" Queue it again:")[0]
    return Done(about.address(), message, Written(FOURNOS_JOB, job.raw))


async def delete(call: Call, form: Mapping[str, str]) -> Done:
    about, job = await _live(call, form)
    await job.delete()
    notice = f"{job.name} is being deleted: fournos delete -n {about.namespace} {job.name}"
    return Done("/jobs", notice, Written(FOURNOS_JOB, job.raw, deleted=True))


async def retry(call: Call, form: Mapping[str, str]) -> Done:
    about = await found(call, form)
    if not is_terminal(about.raw):
        text = f"{name_of(about.raw)} has not ended: it is {phase_of(about.raw)}."
        raise PageError(409, "Not ended", text, "Wait for its end, or resubmit it as another job.")
    made = await _handle(call, about).retry()
    notice = f"{made.name} is submitted with the spec of {name_of(about.raw)}."
    return Done(address(made.namespace, made.name), notice, Written(FOURNOS_JOB, made.raw))


async def keep(call: Call, form: Mapping[str, str]) -> Done:
    about = await found(call, form)
    history = call.viewer.client.history
    run = (await history.run(about.uid, namespace=about.namespace)).run
    await history.keep(run, reason=form.get("reason", "")[:1024])
    return Done(about.address(), f"{run.name} is kept: it does not expire.")


async def release(call: Call, form: Mapping[str, str]) -> Done:
    about = await found(call, form)
    history = call.viewer.client.history
    run = (await history.run(about.uid, namespace=about.namespace)).run
    await history.release(run)
    return Done(about.address(), f"{run.name} may expire.")


async def forget(call: Call, form: Mapping[str, str]) -> Done:
    about = await found(call, form)
    if about.live or about.run is None:
        raise PageError(409, "Not gone", f"{name_of(about.raw)} exists: delete the job first.")
    await call.viewer.client.history.delete(about.run)
    return Done("/jobs", f"{about.run.name} is deleted from the history.")


ACTIONS: Final = tuple(
    Action(name=f"{act.__name__} job", path=f"/jobs/{{namespace}}/{{name}}/{act.__name__}", act=act)
    for act in (stop, hold, unhold, delete, retry, keep, release, forget)
)


# --- its files ------------------------------------------------------------------------------------


async def open_artifact(call: Call) -> Content:
    """Raises PageError for a path that is not plain."""
    try:
        path = checked_path(call.path["path"])
    except ArtifactError as error:
        raise PageError(404, "Not here", str(error), "See the artifacts on the page of the job.") from None
    about = await subject(call)
    pieces = call.viewer.client.history.artifact(about.uid, path, namespace=about.namespace)
    return Content(pieces, path.rpartition("/")[2])


DOWNLOADS: Final = (
    Download(name="artifact", path="/jobs/{namespace}/{name}/artifacts/{path:.+}", open=open_artifact),
)


# --- the page -------------------------------------------------------------------------------------


_LONGEST_YAML: Final = 2**17
"""Bytes of a job as JSON; a longer one is shown as JSON, which takes a hundredth of the time."""
_ESTIMATE: Final = 1.0
"""Seconds that the page waits for an estimate."""
_FRESH: Final = 30.0
"""Seconds for which a page shows the same median."""
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
    parts_read, allowed, typical = await asyncio.gather(
        parts(call, about), rights(call, about), _typical(call, about)
    )
    job, recorded = about.raw, parts_read.recorded.value
    first = failed(job, parts_read)
    explained, line = await asyncio.gather(
        part(_explained(call, about, parts_read)), error_line(call, about, first)
    )
    explanation = explained.value
    drawn = [
        *waiting_lane(recorded.run if recorded else None),
        *lanes(job, parts_read.tasks.value or {}, call.now),
    ]
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
        "explained": explained,
        "explanation": explanation,
        "estimate": _estimate(typical, explanation, call.now),
        "quota": quota_rows(explanation.quota) if explanation and explanation.quota else (),
        "failed": first,
        "error_line": line,
        "because": unsaid(explanation, first, line),
        "ended": is_terminal(job),
        "kept": mark,
        "parts": parts_read,
        "course": course,
        "measured": parts_read.results,
        "most": MOST,
        "curve": curve,
        "spec": [(path, text(value)) for path, value in leaves(spec_of(job))],
        "provenance": parts_read.provenance.map(provenance),
        "yaml": await asyncio.to_thread(as_yaml, job),
    }


async def _typical(call: Call, about: JobSubject) -> Typical | None:
    """How long the kind of the job takes; None if it has ended, or without an answer of a history."""
    if not about.live or is_terminal(about.raw):
        return None

    async def read() -> Typical | None:
        asked = call.viewer.client.history.estimate(about.uid, namespace=about.namespace)
        return (await part(asked, patience=_ESTIMATE)).value

    return await call.site.memo.get(("estimate", call.viewer.key, about.uid), _FRESH, read)


def _estimate(typical: Typical | None, explanation: Explanation | None, now: datetime) -> str:
    if typical is None:
        return ""
    ahead = explanation.ahead if explanation else None
    keeps = explanation.kept if explanation else ""
    return sentence(typical, now, None if ahead is None else len(ahead) + 1, keeps)


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
    if found := job_parts.children.value:
        facts = replace(facts, found=found, events=job_parts.starting)
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
