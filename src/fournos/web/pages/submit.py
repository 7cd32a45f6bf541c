"""Submit: a form from the schema of FournosJobs, its preview, and the jobs that come of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import yaml

from fournos.api.crd import schema
from fournos.api.fournosjob import FournosJobSpec
from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.api.rules import Violation
from fournos.client.asynchronous import AsyncClient
from fournos.client.errors import ConflictError, FournosError, RefusedError
from fournos.client.repeat import repeat
from fournos.client.submission import axes_of, combinations, varied
from fournos.history.estimates.text import answer
from fournos.insight.errors import ManifestError
from fournos.insight.manifests import assign, check, field_path, place, rename, skeleton
from fournos.insight.source import or_error
from fournos.insight.submit_command import matrix_command, submit_command
from fournos.insight.values import count, name_of, spec_of, status_of
from fournos.kube.errors import KubeError, NotFoundError
from fournos.kube.resource import Key, Obj, key_of
from fournos.queueing.kinds import LOCAL_QUEUE
from fournos.web.errors import PageError
from fournos.web.forms import Field, Kind, fields, text_of, value_of, values_of
from fournos.web.routes import Action, Call, Done, Page, Shown
from fournos.web.written import Written

MOST: Final = 100
"""Jobs of one matrix."""
_PATIENCE: Final = 2.0
"""Seconds that a preview waits for the estimate."""
_LEFT_OUT: Final = ("apiVersion", "kind", "metadata", "shutdown")
_FIRST: Final = (
    "owner",
    "displayName",
    "pipeline",
    "cluster",
    "hardware.gpuType",
    "hardware.gpuCount",
    "exclusive",
    "priority",
    "executionEngine",
    "env",
)
"""The fields that most jobs need; the others are folded away."""
_SERVER: Final = "server"
"""The rule of a violation that only the API server has found."""
_FIELD: Final = re.compile(r"\b(?:spec|metadata)(?:\.\w+)+(?=[:\[])")
LABELS: Final = Field("labels", "Labels of the job, to find it by.", Kind.PAIRS)
PRESETS: Final = (
    ("Any cluster with GPUs", "exclusive=false&hardware.gpuCount=1"),
    ("Hold a cluster", "lockOnly=true"),
    ("Without a cluster", "exclusive=false&clusterless=true"),
)
"""Title and query of forms that are filled in already."""


@cache
def inputs() -> tuple[Field, ...]:
    """The inputs of the spec, those first that most jobs need."""
    found = tuple(fields(schema(FournosJobSpec), skip=_LEFT_OUT))
    return tuple(sorted(found, key=lambda one: _FIRST.index(one.path) if one.path in _FIRST else len(_FIRST)))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the form asks for."""

    manifest: dict[str, Any]
    axes: Mapping[str, Sequence[Any]]
    wrong: tuple[Violation, ...]
    """All that the API server would refuse."""

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """One manifest for each job.  Raises ManifestError."""
        if not self.axes:
            return [self.manifest]
        return [varied(self.manifest, values) for values in combinations(self.axes)]


def wanted(form: Mapping[str, str], base: Obj, namespace: str) -> Wanted:
    """Returns what a form asks for.  `base`: its metadata are kept where the form has none."""
    values, wrong = values_of(inputs(), form)
    manifest = skeleton()
    own = base.get("metadata") or {}
    manifest["metadata"] = {name: value for name, value in own.items() if name not in ("labels", "namespace")}
    manifest["spec"] = {}
    for path, value in values.items():
        assign(manifest, field_path(path), value, asked=path)
    axes: Mapping[str, Sequence[Any]] = {}
    try:
        labels = value_of(LABELS, form.get("labels", ""))
        manifest["metadata"] |= {"labels": labels} if labels else {}
    except ValueError as error:
        wrong.append(Violation("metadata.labels", str(error), "form"))
    try:
        axes = axes_of(form.get("matrix", ""))
        if len(combinations(axes)) > MOST:
            wrong.append(Violation("matrix", f"these are more than {MOST} jobs", "form"))
    except ManifestError as error:
        wrong.append(Violation("matrix", error.message, "form"))
    rename(manifest, name=form.get("name", "").strip() or None, generate_name=None)
    place(manifest, asked=None, otherwise=namespace)
    found = Wanted(manifest, axes, ())
    if not wrong:
        try:
            wrong = [one for job in found.jobs for one in check(job)]
        except ManifestError as error:
            wrong = [Violation("matrix", error.message, "form")]
    return Wanted(manifest, axes, tuple(dict.fromkeys(wrong)))


def filled(manifest: Obj) -> dict[str, str]:
    """Returns the inputs of a form for a manifest."""
    found = {"labels": text_of(LABELS, (manifest.get("metadata") or {}).get("labels") or None)}
    for field in inputs():
        value: Any = spec_of(manifest)
        for part in field.path.split("."):
            value = (value or {}).get(part)
        found[field.path] = text_of(field, value)
    return found


async def gather(call: Call) -> Mapping[str, Any]:
    form = {name: str(value) for name, value in call.query.items() if name != "from"}
    given = call.query.get("from", "")
    if given:
        form = filled(await _base(call, given)) | form
    form.setdefault("owner", call.viewer.client.owner)
    form.setdefault("namespace", given.partition("/")[0])
    return await _data(call, {**form, "from": given})


async def _data(
    call: Call, form: Mapping[str, str], asked: Wanted | None = None, start: str = ""
) -> Mapping[str, Any]:
    wrong: dict[str, list[str]] = {}
    violations = asked.wrong if asked else ()
    for one in violations:
        wrong.setdefault(_input(one.field.removeprefix("spec.")), []).append(one.message)
    namespace = await _namespace(call, form)
    return {
        "first": [one for one in inputs() if one.path in _FIRST],
        "others": [one for one in inputs() if one.path not in _FIRST],
        "labels": LABELS,
        "form": form,
        "wrong": wrong,
        "refused": any(one.rule == _SERVER for one in violations),
        "known": await _known(call),
        "namespaces": () if call.site.jobs_namespace else await _namespaces(call),
        "presets": PRESETS,
        "latest": await _latest(call),
        "namespace": namespace,
        "may": await call.viewer.rights.may("create", FOURNOS_JOB, namespace),
        "preview": _preview(asked) if asked and not asked.wrong else None,
        "start": start,
    }


def _input(path: str) -> str:
    """The input that a violation is shown at: that of the field, or the first one in it."""
    within = (one.path for one in inputs() if one.path == path or one.path.startswith(f"{path}."))
    return next(within, path)


def _preview(asked: Wanted) -> Mapping[str, Any]:
    command = submit_command(asked.manifest)
    if asked.axes:
        command = matrix_command(asked.axes, str(asked.manifest["metadata"]["namespace"]))
    document = yaml.safe_dump(asked.manifest, sort_keys=False, width=100)
    return {"jobs": len(asked.jobs), "yaml": document, "command": command}


async def _known(call: Call) -> Mapping[str, list[str]]:
    """Values that are suggested, by field."""
    found = await or_error(call.viewer.source.list(FOURNOS_CLUSTER, namespace=call.site.clusters_namespace))
    clusters = [] if isinstance(found, KubeError) else found.items
    gpus = {
        str(gpu.get("shortName"))
        for one in clusters
        for gpu in (status_of(one).get("hardware") or {}).get("gpus") or ()
        if gpu.get("shortName")
    }
    return {"cluster": sorted(map(name_of, clusters)), "hardware.gpuType": sorted(gpus)}


async def _latest(call: Call) -> list[Key]:
    """The person's newest jobs, to begin with one of them."""
    found = await or_error(call.viewer.source.list(FOURNOS_JOB, namespace=call.site.jobs_namespace))
    jobs = [] if isinstance(found, KubeError) else found.items
    owner = call.viewer.client.owner
    mine = [one for one in jobs if not owner or spec_of(one).get("owner") == owner]
    mine.sort(key=lambda one: str(one["metadata"].get("creationTimestamp")), reverse=True)
    return [Key(one["metadata"]["namespace"], name_of(one)) for one in mine[:5]]


async def _namespaces(call: Call) -> list[str]:
    """The namespaces with a LocalQueue or jobs, as far as the person may read these."""
    found: set[str] = set()
    for kind in (LOCAL_QUEUE, FOURNOS_JOB):
        listed = await or_error(call.viewer.source.list(kind))
        found |= set() if isinstance(listed, KubeError) else {key_of(one).namespace for one in listed.items}
    return sorted(found)


async def _namespace(call: Call, form: Mapping[str, str]) -> str:
    """The one that is asked for, else that of the server, else the first that has a queue or jobs."""
    if call.site.jobs_namespace:
        return call.site.jobs_namespace
    own = call.viewer.client.namespace
    if asked := form.get("namespace", "").strip():
        return asked
    found = await _namespaces(call)
    return own if own in found or not found else found[0]


async def _base(call: Call, given: str) -> Obj:
    """Returns the manifest that repeats the job NAMESPACE/NAME; a job that is gone is read from the history.

    Raises MissingError.
    """
    namespace, slash, name = given.partition("/")
    if not slash or not name or "/" in name:
        raise PageError(404, "Not here", "A job is named as NAMESPACE/NAME.")
    try:
        job = await call.viewer.source.get(FOURNOS_JOB, Key(namespace, name))
    except NotFoundError:
        job = (await _client(call, namespace).job(name)).raw
    return repeat(job, {})[0]


def _client(call: Call, namespace: str) -> AsyncClient:
    own = call.viewer.client
    return AsyncClient(api=own.api, namespace=namespace, owner=own.owner)


async def act(call: Call, form: Mapping[str, str]) -> Done | Shown:
    given = form.get("from", "")
    base = await _base(call, given) if given else {}
    asked = wanted(form, base, await _namespace(call, form))
    shown = {**form, "from": given}
    if asked.wrong:
        return Shown(PAGE, await _data(call, shown, asked), status=422)
    if form.get("do") != "submit":
        return Shown(PAGE, await _data(call, shown, asked, await _start(call, asked)))
    namespace = str(asked.manifest["metadata"]["namespace"])
    client = _client(call, namespace)
    if not asked.axes:
        try:
            job = await client.submit(asked.manifest, owner="")
        except (RefusedError, ConflictError) as error:
            found = replace(asked, wrong=(_refusal(error),))
            return Shown(PAGE, await _data(call, shown, found), status=error.cause.status)
        wrote = Written(FOURNOS_JOB, job.raw)
        return Done(f"/jobs/{job.namespace}/{job.name}", f"{job.name} is submitted.", wrote)
    jobs = await client.submit_matrix(asked.manifest, asked.axes)
    return Done("/jobs", f"{count(len(jobs), 'job')} are submitted.", Written(FOURNOS_JOB, jobs[-1].raw))


def _refusal(error: RefusedError | ConflictError) -> Violation:
    """The answer of the API server, at the first field that it names."""
    if isinstance(error, ConflictError):
        return Violation("metadata.name", f"{error.message}: choose another name", _SERVER)
    field = _FIELD.search(error.message)
    return Violation(field[0] if field else "", error.message, _SERVER)


async def _start(call: Call, asked: Wanted) -> str:
    """Whether the first job would start now, if a history can tell."""
    job = asked.jobs[0]
    namespace = str(job["metadata"]["namespace"])
    with suppress(FournosError, TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            estimate = await call.viewer.client.history.would_start(job["spec"], namespace=namespace)
        return answer(estimate, call.now)
    return ""


PAGE: Final = Page(
    name="submit",
    title="Submit",
    path="/submit",
    gather=gather,
    shared=False,
    command="fournos submit --help",
)
ACTIONS: Final = (Action(name="submit job", path="/submit", act=act),)
