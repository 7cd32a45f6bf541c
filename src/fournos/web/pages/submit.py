"""A new job: a form, a preview, and what exists to choose from."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB, PIPELINE, Resource
from fournos.client.asynchronous import AsyncClient
from fournos.client.errors import ConflictError, RefusedError
from fournos.client.submission import found_anew, repeat
from fournos.insight.clusters import gpus_of, read_kueue_clusters
from fournos.insight.errors import KubeError, Violation
from fournos.insight.manifests import UNKNOWN, dump, unknown_names
from fournos.insight.quota import LOCAL_QUEUE, WORKLOAD_PRIORITY_CLASS
from fournos.insight.source import Source, or_error
from fournos.insight.values import Obj, name_of, namespaces, spec_of
from fournos.web.errors import PageError
from fournos.web.forms import (
    AskedJob,
    Origin,
    changes,
    filled,
    groups,
    input_of,
    wanted,
)
from fournos.web.runs.subject import address, subject, text
from fournos.web.site import Action, Call, Done, Page, ShownPage, Written


async def existing(call: Call, namespace: str) -> dict[str, Sequence[str]]:
    """Path of an input → the values that exist, as far as the person may read them."""
    person, source = call.viewer.client.api, call.viewer.source
    pipelines, priorities, hearth, kueue = await asyncio.gather(
        _listed(person, PIPELINE, namespace),
        _listed(person, WORKLOAD_PRIORITY_CLASS),
        _listed(source, FOURNOS_CLUSTER, call.site.clusters_namespace),
        read_kueue_clusters(source),
    )
    gpus: dict[str, int] = {}
    for each in (*map(gpus_of, hearth), *(cluster.gpus for cluster in kueue)):
        for gpu_type, number in each.items():
            gpus[gpu_type] = max(number, gpus.get(gpu_type, 0))
    most = max(gpus.values(), default=0)
    return {
        "cluster": sorted({*map(name_of, hearth), *(cluster.name for cluster in kueue)}),
        "hardware.gpuType": sorted(gpus),
        "hardware.gpuCount": [str(2**power) for power in range(most.bit_length())],
        "pipeline": sorted(map(name_of, pipelines)),
        "priority": sorted(map(name_of, priorities)),
    }


async def _listed(source: Source, kind: Resource, namespace: str = "") -> Sequence[Obj]:
    listed = await or_error(source.list(kind, namespace=namespace))
    return () if isinstance(listed, KubeError) else listed.items


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
    return await _data(call, form, origin, await _namespace(call, form))


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
    namespace: str,
    asked: AskedJob | None = None,
) -> Mapping[str, Any]:
    wrong: dict[str, list[str]] = {}
    violations = asked.wrong if asked else ()
    for violation in violations:
        wrong.setdefault(input_of(violation.field.removeprefix("spec.")), []).append(violation.message)
    first, others = groups(again=origin is not None)
    differs = {input_of(one.path) for one in changes(origin, asked)} if origin and asked else set()
    folded = {*(field.path for field in others), *(["metadata.namespace"] if origin else [])}
    return {
        "origin": origin,
        "first": first,
        "others": others,
        "open": bool(folded & {*wrong, *differs}),
        "form": form,
        "wrong": wrong,
        "refused": any(violation.rule == _SERVER for violation in violations),
        "unknown": any(violation.rule == UNKNOWN for violation in violations),
        "names": await existing(call, namespace),
        "namespaces": () if call.site.jobs_namespace else await _namespaces(call),
        "namespace": namespace,
        "may": await call.viewer.rights.may("create", FOURNOS_JOB, namespace),
        "preview": await asyncio.to_thread(_preview, asked, origin) if asked and not asked.wrong else None,
    }


def _preview(asked: AskedJob, origin: Origin | None) -> Mapping[str, Any]:
    shown = changes(origin, asked) if origin else ()
    return {
        "changes": [(one.path, _shown(one.first), _shown(one.second)) for one in shown],
        "anew": found_anew(spec_of(asked.manifest)) if origin else (),
        "yaml": dump(asked.manifest, width=100),
    }


def _shown(value: Any) -> str:
    return "" if value is None else text(value)


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
    origin, namespace = await _origin(call, form), await _namespace(call, form)

    async def again(asked: AskedJob, *, status: int = 200) -> ShownPage:
        return ShownPage(PAGE, await _data(call, form, origin, namespace, asked), status)

    # A form as large as one may be takes a while.
    asked = await asyncio.to_thread(wanted, form, origin.manifest if origin else {}, namespace)
    if asked.wrong:
        return await again(asked, status=422)
    if form.get("do") not in ("submit", _ALL_THE_SAME):
        return await again(asked)
    client = _client(call, str(asked.manifest["metadata"]["namespace"]))
    if form.get("do") != _ALL_THE_SAME and (unknown := await unknown_names(client.api, asked.manifest)):
        return await again(replace(asked, wrong=tuple(unknown)), status=422)
    try:
        job = await client.submit(asked.manifest, owner="")
    except (RefusedError, ConflictError) as error:
        return await again(replace(asked, wrong=(_refusal(error),)), status=error.cause.status)
    notice = f"{job.name} is submitted{_as_before(origin, asked)}."
    return Done(address(job.namespace, job.name), notice, Written(FOURNOS_JOB, job.raw))


def _as_before(origin: Origin | None, asked: AskedJob) -> str:
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


PAGE: Final = Page(
    name="submit",
    title="Submit",
    path="/submit",
    gather=gather,
    shared=False,
    command="fournos submit --help",
)
ACTIONS: Final = (Action(name="submit job", path="/submit", act=act),)
