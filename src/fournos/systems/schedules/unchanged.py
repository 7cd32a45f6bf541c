"""What `spec.skipUnchanged` compares: a digest of what a fire would measure.  Pure.

It is made of what the schedule holds and of what the cluster's API knows; no registry and no git server is
asked.  What is not known is not equal to anything: a run too many is better than one that is missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from fournos.api.fournosjob import DEFAULT_PIPELINE
from fournos.api.fournosjob_values import param_value
from fournos.api.fournosschedule import UnchangedOf
from fournos.api.kinds import IMAGE_STREAM, PIPELINE, TASK
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.runtime.decision import Answer, LiveGet, LiveList, Present, Unknown
from fournos.systems.schedules import names
from fournos.systems.schedules.children import job_specs
from fournos.systems.schedules.context import Context
from fournos.systems.schedules.images import UnknownImageError, digests

_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Measured:
    """What a fire would measure."""

    digest: str | None = None
    """None: nothing is compared, or it is not known."""
    unknown: str = ""
    """What is not known."""


def measured(ctx: Context) -> Measured | None:
    """Returns what a fire of now would measure; None: it could not be read, which may pass."""
    skip = ctx.spec.skip_unchanged
    if skip is None:
        return Measured()
    if skip.of is UnchangedOf.PARAMS:
        return _of(_params(ctx.obj))
    specs = job_specs(ctx.obj, ctx.spec)
    if skip.of is UnchangedOf.GIT_REF:
        return _commits(specs, skip.fields)
    return _images(ctx, specs)


def _of(value: object) -> Measured:
    return Measured(names.digest(json.dumps(value, sort_keys=True)))


def _params(schedule: Obj) -> object:
    spec = schedule["spec"]
    return [(spec["jobTemplate"].get("spec") or {}).get("params"), spec.get("matrix")]


def _commits(specs: Iterable[Mapping[str, Any]], fields: Iterable[str]) -> Measured:
    """Takes whole commit hashes only: the same branch, or the same tag, may be another commit now."""
    commits: list[str] = []
    for spec, path in product(specs, fields):
        commit = _field(spec, path)
        if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
            return Measured(unknown=f"{path} is no whole commit hash")
        commits.append(commit)
    return _of(commits)


def _field(spec: Mapping[str, Any], path: str) -> Any:
    value: Any = spec
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _images(ctx: Context, specs: list[dict[str, Any]]) -> Measured | None:
    """Compares the jobs as they are written, with the digests of all images of their Pipelines."""
    used = [str(spec.get("pipeline") or DEFAULT_PIPELINE) for spec in specs]
    gets = {name: LiveGet(PIPELINE, Key(ctx.namespace, name)) for name in used}
    lists = (LiveList(TASK, ctx.namespace), LiveList(IMAGE_STREAM, ctx.namespace))
    answers = ctx.facts.require_all((*gets.values(), *lists))
    if any(isinstance(answer, Unknown) and not answer.forbidden for answer in answers):
        return None
    pipelines = dict(zip(gets, answers, strict=False))
    tasks, streams = map(_listed, answers[len(gets) :])
    images: list[list[str]] = []
    for name, spec in zip(used, specs, strict=True):
        pipeline = pipelines[name]
        if not isinstance(pipeline, Present):
            return Measured(unknown=f"Pipeline {name} cannot be read")
        try:
            images.append(digests(pipeline.value, _values(spec.get("params")), tasks, streams))
        except UnknownImageError as error:
            return Measured(unknown=f"Pipeline {name}: {error}")
    return _of([specs, images])


def _values(params: object) -> dict[str, Any]:
    """Returns the parameters of a job; none if they are no map, as the API server refuses such a job."""
    return {name: param_value(value) for name, value in params.items()} if isinstance(params, dict) else {}


def _listed(answer: Answer) -> tuple[Obj, ...]:
    """Returns the objects of a list; none of a kind that the cluster does not have, or hides."""
    return answer.value if isinstance(answer, Present) else ()
