"""What the buttons of a job do.  The API server and the history decide whether the person may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import yaml

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.errors import FournosError, ManifestError, RefusedError
from fournos.client.jobs import AsyncJob
from fournos.client.repeat import NOT_REPEATED
from fournos.insight.differences import differences
from fournos.insight.manifests import field_path
from fournos.insight.values import is_terminal, name_of, phase_of, spec_of
from fournos.web.errors import PageError
from fournos.web.routes import Action, Call, Done, Page, Shown
from fournos.web.runs.subject import Subject, address, subject
from fournos.web.written import Written

MOST: Final = 65_536
"""Characters of a spec that is typed."""
_DEEPEST: Final = 32


async def found(call: Call, form: Mapping[str, str]) -> Subject:
    """The job that a form is about: the one with its `uid`, read with the person's own rights."""
    about = replace(call, query={"uid": form.get("uid", "")})
    return await subject(about, source=call.viewer.client.api)


def _handle(call: Call, about: Subject) -> AsyncJob:
    return AsyncJob(call.viewer.client, about.raw)


async def _live(call: Call, form: Mapping[str, str]) -> tuple[Subject, AsyncJob]:
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


async def delete(call: Call, form: Mapping[str, str]) -> Done:
    about, job = await _live(call, form)
    await job.delete()
    notice = f"{job.name} is being deleted: fournos delete -n {about.namespace} {job.name}"
    return Done("/jobs", notice, Written(FOURNOS_JOB, job.raw, deleted=True))


async def retry(call: Call, form: Mapping[str, str]) -> Done:
    about = await found(call, form)
    if not is_terminal(about.raw):
        text = f"{name_of(about.raw)} has not ended: it is {phase_of(about.raw)}."
        raise PageError(409, "Not ended", text, "Wait for its end, or resubmit it beside.")
    return await _again(call, about, {})


async def resubmit(call: Call, form: Mapping[str, str]) -> Done | Shown:
    about, typed = await found(call, form), form.get("spec", "")
    try:
        return await _again(call, about, changes_of(about, typed))
    except (ManifestError, RefusedError) as error:
        return Shown(PAGE, _form(about, typed, error), status=422)


async def _again(call: Call, about: Subject, changes: Mapping[str, Any]) -> Done:
    made = await _handle(call, about).resubmit(changes)
    assert made.repeats is not None
    changed = f"; changed: {', '.join(made.repeats.changed)}" if made.repeats.changed else ""
    notice = f"{made.name} is submitted, as {made.repeats.of} was{changed}."
    return Done(address(made.namespace, made.name), notice, Written(FOURNOS_JOB, made.raw))


def changes_of(about: Subject, text: str) -> dict[str, Any]:
    """Path → value of each field of the typed spec that differs from that of the job; None removes one.

    Raises ManifestError.
    """
    given, before = _spec(text), {"spec": repeated(about)}
    found = {one.path: one.second for one in differences(before, {"spec": given})}
    removed = {_removed(field_path(path)[1:], given): None for path, value in found.items() if value is None}
    return {**{path: value for path, value in found.items() if value is not None}, **removed}


def _spec(text: str) -> Mapping[str, Any]:
    if len(text) > MOST:
        raise ManifestError("the spec is too long", fix=f"write at most {MOST} characters")
    try:
        _check_events(text)
        given = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise ManifestError(f"the spec is no YAML: {first}", fix="correct it") from None
    if not isinstance(given, dict):
        raise ManifestError("the spec is no map of fields", fix="correct it")
    return given


def _check_events(text: str) -> None:
    """Raises ManifestError for what makes a small text a large or slow object: aliases, and deep nesting."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            raise ManifestError("the spec has a YAML alias", fix="write the value out")
        if depth > _DEEPEST:
            raise ManifestError(f"the spec has more than {_DEEPEST} levels", fix="write it flatter")


def _removed(parts: Sequence[str], given: Mapping[str, Any]) -> str:
    """The path of what was removed: of the outermost map that is gone, not of each field in it."""
    node: Any = given
    for place, part in enumerate(parts):
        node = node.get(part) if isinstance(node, Mapping) else None
        if node is None:
            parts = parts[: place + 1]
            break
    return ".".join(part.replace(".", "\\.") for part in parts)


def repeated(about: Subject) -> dict[str, Any]:
    """The fields of the spec that a repeated job takes over."""
    return {name: value for name, value in spec_of(about.raw).items() if name not in NOT_REPEATED}


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


# --- the form for changes ------------------------------------------------------------------------


async def gather(call: Call) -> Mapping[str, Any]:
    about = await subject(call)
    return _form(about, yaml.safe_dump(repeated(about), sort_keys=False, allow_unicode=True, width=120))


def _form(about: Subject, spec: str, error: FournosError | None = None) -> Mapping[str, Any]:
    return {
        "about": about,
        "name": name_of(about.raw),
        "namespace": about.namespace,
        "spec": spec,
        "rows": min(40, spec.count("\n") + 4),
        "most": MOST,
        "error": error,
    }


PAGE: Final = Page(
    name="resubmit",
    title="Resubmit {name}",
    path="/jobs/{namespace}/{name}/resubmit",
    gather=gather,
    in_nav=False,
    shared=False,
    command="fournos resubmit -n {namespace} {name} --set hardware.gpuCount=4",
)
ACTIONS: Final = tuple(
    Action(name=f"{act.__name__} job", path=f"/jobs/{{namespace}}/{{name}}/{act.__name__}", act=act)
    for act in (stop, delete, retry, resubmit, keep, release, forget)
)
