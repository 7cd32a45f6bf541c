"""Submit: the form of a new job, empty or filled in from a job; its preview, and the jobs that come of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.asynchronous import AsyncClient
from fournos.client.errors import ConflictError, RefusedError
from fournos.client.repeat import found_anew, repeat
from fournos.engine.api.rules import Violation
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.formats import dump
from fournos.engine.kube.resource import Key, key_of
from fournos.engine.queueing.kinds import LOCAL_QUEUE
from fournos.insight.differences import SpecDifference
from fournos.insight.snapshots import namespaces
from fournos.insight.source import or_error
from fournos.insight.unknown_names import UNKNOWN, unknown_names
from fournos.insight.values import count, name_of, spec_of
from fournos.web.errors import PageError
from fournos.web.routes import Action, Call, Done, Page, ShownPage
from fournos.web.runs.choices import FormChoices, form_choices
from fournos.web.runs.estimates import of_spec
from fournos.web.runs.filters import Filters
from fournos.web.runs.job_form import (
    LABELS,
    PRESETS,
    AskedJobs,
    Origin,
    changes,
    command,
    filled,
    groups,
    input_of,
    varies,
    wanted,
)
from fournos.web.runs.rows import newest
from fournos.web.runs.subject import address, subject
from fournos.web.runs.texts import text
from fournos.web.written import Written

_LATEST: Final = 5
"""The newest jobs that are offered to begin with."""
_SERVER: Final = "server"
"""The rule of a violation that only the API server has found."""
_ALL_THE_SAME: Final = "force"
"""The button that submits a job although nothing has the name of its cluster, Pipeline or GPU."""
_FIELD: Final = re.compile(r"(?<![\w.])(?:spec|metadata)(?:\.\w++)++(?=[:\[])")


async def gather(call: Call) -> Mapping[str, Any]:
    origin = await _origin(call, call.query)
    given = {name: str(value) for name, value in call.query.items()}
    form = {**filled(origin.manifest), "namespace": origin.about.namespace, **given} if origin else given
    form.setdefault("owner", call.viewer.client.owner)
    return await _data(call, form, origin, await _choices(call, form))


async def _choices(call: Call, form: Mapping[str, str]) -> FormChoices:
    return await form_choices(call, await _namespace(call, form), form.get("pipeline", ""))


async def _origin(call: Call, given: Mapping[str, str]) -> Origin | None:
    """The job NAMESPACE/NAME of the field `from`; with `uid` the one of several that had this name.

    A job that is gone is read from the history.  Raises PageError, FournosError and KubeError.
    """
    if not given.get("from"):
        return None
    namespace, slash, name = given["from"].partition("/")
    if not namespace or not slash or not name or "/" in name:
        raise PageError(404, "Not here", "A job is named as NAMESPACE/NAME.")
    asked = replace(call, path={"namespace": namespace, "name": name}, query={"uid": given.get("uid") or ""})
    found = await subject(asked)
    return Origin(found, repeat(found.raw, {})[0])


async def _data(
    call: Call,
    form: Mapping[str, str],
    origin: Origin | None,
    choices: FormChoices,
    asked: AskedJobs | None = None,
    start: str = "",
) -> Mapping[str, Any]:
    wrong: dict[str, list[str]] = {}
    violations = asked.wrong if asked else ()
    for violation in violations:
        wrong.setdefault(input_of(violation.field.removeprefix("spec.")), []).append(violation.message)
    namespace = choices.namespace
    first, others = groups(again=origin is not None)
    differs = (
        {input_of(difference.path) for difference in changes(origin, asked)} if origin and asked else set()
    )
    folded = {*(field.path for field in others), LABELS.path, *(["metadata.namespace"] if origin else [])}
    return {
        "origin": origin,
        "first": first,
        "others": others,
        "labels": LABELS,
        "open": bool(folded & {*wrong, *differs}),
        "form": form,
        "wrong": wrong,
        "refused": any(violation.rule == _SERVER for violation in violations),
        "unknown": any(violation.rule == UNKNOWN for violation in violations),
        "names": choices.names,
        "params": choices.inputs(form),
        "namespaces": () if call.site.jobs_namespace else await _namespaces(call),
        "presets": PRESETS,
        "latest": await _latest(call),
        "namespace": namespace,
        "may": await call.viewer.rights.may("create", FOURNOS_JOB, namespace),
        "preview": await asyncio.to_thread(_preview, asked, origin) if asked and not asked.wrong else None,
        "start": start,
    }


def _preview(asked: AskedJobs, origin: Origin | None) -> Mapping[str, Any]:
    shown = changes(origin, asked) if origin else ()
    return {
        "jobs": len(asked.jobs),
        "changes": [(one.path, _shown(one.first), _second(one, asked)) for one in shown],
        "anew": found_anew(spec_of(asked.manifest)) if origin else (),
        "yaml": dump(asked.manifest, width=100),
        "command": command(asked, origin),
    }


def _second(difference: SpecDifference, asked: AskedJobs) -> str:
    if varies(asked, difference.path):
        return f"one of {', '.join(map(_shown, difference.second))}"
    return _shown(difference.second)


def _shown(value: Any) -> str:
    return "" if value is None else text(value)


async def _latest(call: Call) -> list[Key]:
    """The person's newest jobs, to begin with one of them."""
    found = await or_error(call.viewer.source.list(FOURNOS_JOB, namespace=call.site.jobs_namespace))
    jobs = [] if isinstance(found, KubeError) else found.items
    mine = Filters(owner=call.viewer.client.owner or "")
    return [key_of(one) for one in newest(jobs, mine, None, _LATEST)]


async def _namespaces(call: Call) -> list[str]:
    """The namespaces with a LocalQueue or jobs, as far as the person may read these."""
    spaces: set[str] = set()
    for kind in (LOCAL_QUEUE, FOURNOS_JOB):
        listed = await or_error(call.viewer.source.list(kind))
        spaces |= set() if isinstance(listed, KubeError) else namespaces(listed.items)
    return sorted(spaces)


async def _namespace(call: Call, form: Mapping[str, str]) -> str:
    """The one that is asked for, else that of the server, else the first that has a queue or jobs."""
    if call.site.jobs_namespace:
        return call.site.jobs_namespace
    own = call.viewer.client.namespace
    if asked := form.get("namespace", "").strip():
        return asked
    found = await _namespaces(call)
    return own if own in found or not found else found[0]


def _client(call: Call, namespace: str) -> AsyncClient:
    own = call.viewer.client
    return AsyncClient(api=own.api, namespace=namespace, owner=own.owner, patience=0)


async def act(call: Call, form: Mapping[str, str]) -> Done | ShownPage:
    origin = await _origin(call, form)
    base = origin.manifest if origin else {}
    # A hundred jobs of a form as large as one may be take a second.
    choices = await _choices(call, form)
    if form.get("do") == "fields":
        return ShownPage(PAGE, await _data(call, form, origin, choices))
    asked = await asyncio.to_thread(wanted, form, base, choices.namespace, choices.inputs(form))
    if asked.wrong:
        return ShownPage(PAGE, await _data(call, form, origin, choices, asked), status=422)
    if form.get("do") not in ("submit", _ALL_THE_SAME):
        return ShownPage(PAGE, await _data(call, form, origin, choices, asked, await _start(call, asked)))
    client = _client(call, str(asked.manifest["metadata"]["namespace"]))
    if form.get("do") != _ALL_THE_SAME and (unknown := await unknown_names(client.api, asked.jobs[0])):
        asked = replace(asked, wrong=tuple(unknown))
        return ShownPage(PAGE, await _data(call, form, origin, choices, asked), status=422)
    as_before = _as_before(origin, asked)
    if not asked.axes:
        try:
            job = await client.submit(asked.manifest, owner="")
        except (RefusedError, ConflictError) as error:
            found = replace(asked, wrong=(_refusal(error),))
            return ShownPage(PAGE, await _data(call, form, origin, choices, found), status=error.cause.status)
        wrote = Written(FOURNOS_JOB, job.raw)
        return Done(address(job.namespace, job.name), f"{job.name} is submitted{as_before}.", wrote)
    jobs = await client.submit_matrix(asked.manifest, asked.axes)
    notice = f"{count(len(jobs), 'job')} are submitted{as_before}."
    return Done("/jobs", notice, Written(FOURNOS_JOB, jobs[-1].raw))


def _as_before(origin: Origin | None, asked: AskedJobs) -> str:
    if origin is None:
        return ""
    changed = ", ".join(one.path for one in changes(origin, asked))
    return f" with the spec of {name_of(origin.about.raw)}" + (f"; changed: {changed}" if changed else "")


def _refusal(error: RefusedError | ConflictError) -> Violation:
    """The answer of the API server, at the first field that it names."""
    if isinstance(error, ConflictError):
        return Violation("metadata.name", f"{error.message}: choose another name", _SERVER)
    field = _FIELD.search(error.message)
    return Violation(field[0] if field else "", error.message, _SERVER)


async def _start(call: Call, asked: AskedJobs) -> str:
    """Whether the first job would start now; "" without an answer of a history."""
    job = asked.jobs[0]
    found = await of_spec(call, job["spec"], str(job["metadata"]["namespace"]))
    return f"The first one: {found}" if found and asked.axes else found


PAGE: Final = Page(
    name="submit",
    title="Submit",
    path="/submit",
    gather=gather,
    shared=False,
    command="fournos submit --help",
)
ACTIONS: Final = (Action(name="submit job", path="/submit", act=act),)
