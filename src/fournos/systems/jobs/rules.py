"""Validation rules of a FournosJob: each row has one rule, as CEL for the API server and as Python.

Source of the rules in this module: the Fournos README, on fields that require or exclude one another.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from fournos.api.fournosjob import DEFAULT_PIPELINE, DEFINITION, Phase
from fournos.api.fournosjob_values import param_value
from fournos.api.kinds import FOURNOS_JOB, PIPELINE
from fournos.engine.api.rules import Json, Rule, Violation, same_field, violations
from fournos.engine.api.schema_readers import schema_violations
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.managed_by import fixed_rule
from fournos.engine.runtime.decision import Facts, LiveGet, Present
from fournos.engine.runtime.webhook.review import Request, Review, Webhook
from fournos.systems.jobs import names
from fournos.systems.jobs.names import OWN_PARAMS
from fournos.systems.jobs.rules_fields import FIELDS, GPU_TYPE, MAX_GPU_TYPE
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.jobs.status import Context

# --- changes -------------------------------------------------------------------------------------------
# Rules on which fields of a FournosJob may change, and until which phase.
#
# A field that a decision was based on is immutable after that decision: hardware and secretRefs once the
# job is resolved, the others once Kueue has admitted it.  A later change of cluster, priority or engine
# would have no effect or a partial one.  This also applies to a job that waits for its next attempt.
# Fields without a rule may change at any time.

_RESOLVED: Final = tuple(str(phase) for phase in Phase if phase is not Phase.RESOLVING)
_ADMITTED: Final = tuple(phase for phase in _RESOLVED if phase != Phase.PENDING)


def _same_dynamic(field: str) -> str:
    """Returns the comparison for a field of arbitrary content, which CEL can read only as dyn."""
    return same_field(field, "dyn(self.spec)", "dyn(oldSelf.spec)")


def _same_flag(field: str) -> str:
    """Returns the comparison for a boolean field; absent means false."""
    new, old = f"self.spec.{field}", f"oldSelf.spec.{field}"
    return f"(has({new}) && {new}) == (has({old}) && {old})"


def _frozen(
    field: str,
    *,
    since: Literal["resolved", "admitted"] = "admitted",
    default: object = None,
    compare: Callable[[str], str] = same_field,
) -> Rule:
    """Returns the rule that a field is immutable from a phase on.

    It is at the root, because it reads the phase.
    """
    phases = _ADMITTED if since == "admitted" else _RESOLVED
    listed = ", ".join(f"'{phase}'" for phase in phases)
    free = f"!(oldSelf.status.phase in [{listed}])"
    if since == "admitted":
        free = f"({free} && !(has(oldSelf.status.attempt) && oldSelf.status.attempt > 0))"

    def holds(new: Json, old: Json) -> bool:
        now, then = new.get("spec"), old.get("spec")
        status = old.get("status") or {}
        if now is None or then is None or not status.get("phase"):
            return True
        again = since == "admitted" and (status.get("attempt") or 0) > 0
        if status["phase"] not in phases and not again:
            return True
        values = (default if spec.get(field) is None else spec[field] for spec in (now, then))
        return next(values) == next(values)

    return Rule(
        id=f"{field.lower()}-frozen",
        at="",
        when="update",
        field=f"spec.{field}",
        reason="FieldValueForbidden",
        message=f"{field} cannot change once the job is {since}: submit a new job with the other value",
        cel=f"!has(oldSelf.status) || !has(oldSelf.status.phase) || {free} || ({compare(field)})",
        holds=holds,
    )


def _raised(new: Json, old: Json) -> bool:
    now, then = new.get("spec"), old.get("spec")
    if now is None or then is None or then.get("shutdown") is None:
        return True
    return now.get("shutdown") in (then["shutdown"], "Terminate")


CHANGES: Final[tuple[Rule, ...]] = (
    Rule(
        id="shutdown-raised",
        at="",
        when="update",
        field="spec.shutdown",
        reason="FieldValueForbidden",
        message="a shutdown is never taken back, only raised from Stop to Terminate: "
        "keep the value, or submit a new job",
        cel="!has(oldSelf.spec.shutdown) || (has(self.spec.shutdown) && "
        "(self.spec.shutdown == oldSelf.spec.shutdown || self.spec.shutdown == 'Terminate'))",
        holds=_raised,
    ),
    fixed_rule("managedBy cannot change: submit a new job with the other value"),
    _frozen("pipeline", default=DEFAULT_PIPELINE),
    _frozen("cluster"),
    _frozen("exclusive", default=True),
    _frozen("executionEngine", compare=_same_dynamic),
    _frozen("params", compare=_same_dynamic),
    _frozen("priority"),
    _frozen("clusterless", default=False, compare=_same_flag),
    _frozen("lockOnly", since="resolved", default=False, compare=_same_flag),
    _frozen("hardware", since="resolved"),
    _frozen("secretRefs", since="resolved"),
)


# --- all rules -----------------------------------------------------------------------------------------

_CLUSTER = "(has(self.cluster) && self.cluster != '')"
_LOCK_ONLY = "(has(self.lockOnly) && self.lockOnly)"
_CLUSTERLESS = "(has(self.clusterless) && self.clusterless)"
_EXCLUSIVE = "(!has(self.exclusive) || self.exclusive)"
# executionEngine and params have arbitrary content, so CEL has no type for them: hence dyn.  The rules are at
# the root, the only place where the API server can estimate the cost of dyn.
_ENGINE = "dyn(self.spec).executionEngine"
_PARAMS = "dyn(self.spec).params"


def _exclusive(spec: Json) -> bool:
    return spec.get("exclusive") is not False


def _is_complete(gpus: Json) -> bool:
    kind = str(gpus.get("gpuType") or "")
    named = len(kind) <= MAX_GPU_TYPE and bool(re.fullmatch(GPU_TYPE, kind))
    return named and gpus.get("gpuCount") is not None


COMBINATIONS: Final = (
    Rule(
        id="spec-missing",
        at="",
        field="spec",
        reason="FieldValueRequired",
        message="write a spec with at least an executionEngine, and with cluster or exclusive: false",
        cel="has(self.spec)",
        holds=lambda new, _: new.get("spec") is not None,
    ),
    Rule(
        id="engine-missing",
        at="",
        field="spec.executionEngine",
        reason="FieldValueRequired",
        message="name the execution engine and its configuration, such as "
        "executionEngine: {forge: {project: llmd}}; only a job with lockOnly: true goes without",
        cel="!has(self.spec) || (has(self.spec.lockOnly) && self.spec.lockOnly) || "
        f"(has({_ENGINE}) && {_ENGINE}.size() > 0)",
        holds=lambda new, _: (
            new.get("spec") is None or bool(new["spec"].get("lockOnly") or new["spec"].get("executionEngine"))
        ),
    ),
    Rule(
        id="engine-single",
        at="",
        field="spec.executionEngine",
        message="write exactly one key, the name of the engine, and put all its configuration below that key",
        cel=f"!has(self.spec) || !has({_ENGINE}) || {_ENGINE}.size() <= 1",
        holds=lambda new, _: len((new.get("spec") or {}).get("executionEngine") or {}) <= 1,
    ),
    Rule(
        id="params-own",
        at="",
        field="spec.params",
        reason="FieldValueForbidden",
        message=f"the operator passes {', '.join(OWN_PARAMS)} itself: remove them",
        cel=f"!has(self.spec) || !has({_PARAMS}) || !{_PARAMS}.exists(name, name in {list(OWN_PARAMS)})",
        holds=lambda new, _: not set(OWN_PARAMS) & set((new.get("spec") or {}).get("params") or {}),
    ),
    Rule(
        id="exclusive-cluster",
        field="spec.cluster",
        reason="FieldValueRequired",
        message="an exclusive job locks its cluster, and exclusive defaults to true: name the cluster, "
        "or write exclusive: false to run on any cluster that has room",
        cel=f"{_CLUSTER} || {_LOCK_ONLY} || {_CLUSTERLESS} || !{_EXCLUSIVE}",
        holds=lambda new, _: bool(
            new.get("cluster") or new.get("lockOnly") or new.get("clusterless") or not _exclusive(new)
        ),
    ),
    Rule(
        id="lock-cluster",
        field="spec.cluster",
        reason="FieldValueRequired",
        message="lockOnly: true needs the cluster to lock: write cluster: <name>",
        cel=f"!{_LOCK_ONLY} || {_CLUSTERLESS} || {_CLUSTER}",
        holds=lambda new, _: bool(not new.get("lockOnly") or new.get("clusterless") or new.get("cluster")),
    ),
    Rule(
        id="lock-exclusive",
        field="spec.exclusive",
        message="lockOnly: true always locks the whole cluster: leave exclusive out or write exclusive: true",
        cel=f"!{_LOCK_ONLY} || {_CLUSTERLESS} || {_EXCLUSIVE}",
        holds=lambda new, _: bool(not new.get("lockOnly") or new.get("clusterless") or _exclusive(new)),
    ),
    Rule(
        id="clusterless-lock",
        field="spec.clusterless",
        message="clusterless: true cannot go with lockOnly: true, which needs a cluster: remove one",
        cel=f"!{_CLUSTERLESS} || !{_LOCK_ONLY}",
        holds=lambda new, _: not (new.get("clusterless") and new.get("lockOnly")),
    ),
    Rule(
        id="clusterless-exclusive",
        field="spec.exclusive",
        message="a clusterless job locks no cluster, but exclusive defaults to true: write exclusive: false",
        cel=f"!{_CLUSTERLESS} || {_LOCK_ONLY} || !{_EXCLUSIVE}",
        holds=lambda new, _: bool(not new.get("clusterless") or new.get("lockOnly") or not _exclusive(new)),
    ),
    Rule(
        id="clusterless-cluster",
        field="spec.cluster",
        reason="FieldValueForbidden",
        message="clusterless: true runs without a cluster: remove cluster, or remove clusterless",
        cel=f"!{_CLUSTERLESS} || {_LOCK_ONLY} || !{_CLUSTER}",
        holds=lambda new, _: bool(
            not new.get("clusterless") or new.get("lockOnly") or not new.get("cluster")
        ),
    ),
    Rule(
        id="hardware-both",
        at="spec.hardware",
        field="spec.hardware",
        reason="FieldValueRequired",
        message="write both gpuType and gpuCount, such as hardware: {gpuType: a100, gpuCount: 2}, "
        "or leave hardware out for the execution engine to fill in",
        cel="has(self.gpuType) && self.gpuType != '' && has(self.gpuCount)",
        holds=lambda new, _: bool(new.get("gpuType")) and new.get("gpuCount") is not None,
    ),
    Rule(
        id="alternatives-complete",
        at="spec.hardware",
        field="spec.hardware.alternatives",
        message="write gpuType and gpuCount of each, such as alternatives: [{gpuType: a100, gpuCount: 4}]; "
        f"the type is lower case letters and digits, without a prefix, at most {MAX_GPU_TYPE} characters",
        cel="!has(self.alternatives) || self.alternatives.all(a, has(a.gpuCount) && has(a.gpuType) && "
        f"a.gpuType.size() <= {MAX_GPU_TYPE} && a.gpuType.matches('^{GPU_TYPE}$'))",
        holds=lambda new, _: all(map(_is_complete, new.get("alternatives") or ())),
    ),
)

RULES: Final[tuple[Rule, ...]] = (*COMBINATIONS, *FIELDS, *CHANGES)


def check(new: Json, old: Json | None = None) -> list[Violation]:
    """Returns the violations for which the API server refuses to create `new`, or to replace `old` by it.

    `check(stored)` finds the violations of an object that was stored before a rule existed.  The objects must
    match the schema, as stored objects do.
    """
    return violations(RULES, new, old)


def check_manifest(new: Json) -> list[Violation]:
    """As `check`, for a manifest that has not been validated yet: the schema is checked first."""
    return schema_violations(DEFINITION, new) or check(new)


# --- parameters ----------------------------------------------------------------------------------------
# `spec.params` against what the Pipeline declares: when the job is created, and when it is resolved.  Pure.
#
# Tekton ignores a parameter that a Pipeline does not declare, so that a typing error would measure the
# default.

_HAS_PARAMS: Final = "has(object.spec) && has(object.spec.params)"


def declared(pipeline: Obj) -> dict[str, str]:
    """Returns the parameters that a job may set, each with its type: string, array or object."""
    params = (pipeline.get("spec") or {}).get("params") or ()
    types = {param["name"]: str(param.get("type") or "string") for param in params}
    return {name: kind for name, kind in types.items() if name not in names.OWN_PARAMS}


def problem(params: Mapping[str, Any], pipeline: Obj) -> str:
    """Returns why the Pipeline cannot take these parameters, with what it declares; "" if it can."""
    declared_types, name = declared(pipeline), str((pipeline.get("metadata") or {}).get("name") or "")
    declares = (
        f"it declares {', '.join(sorted(declared_types))}"
        if declared_types
        else "it declares none that a job can set"
    )
    for param, value in params.items():
        if param not in declared_types:
            near = difflib.get_close_matches(param, declared_types, n=1)
            meant = f" (did you mean '{near[0]}'?)" if near else ""
            return f"Pipeline '{name}' declares no parameter '{param}'{meant}: {declares}"
        texts = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(text, str) for text in texts):
            return f"Parameter '{param}' is neither a text nor a list of texts"
        kind = "array" if isinstance(value, tuple) else "string"
        if kind != declared_types[param]:
            return f"Parameter '{param}' of Pipeline '{name}' is of type {declared_types[param]}, not {kind}"
    return ""


def params_problem(ctx: Context) -> str:
    """Returns why the job's Pipeline cannot take its parameters, by a live read if the cached one cannot."""
    params, cached = ctx.spec.params, ctx.observed.pipeline
    if not params or (cached is not None and not problem(params, cached)):
        return ""
    answer = ctx.facts.require(LiveGet(PIPELINE, Key(ctx.namespace, ctx.spec.pipeline)))
    return problem(params, answer.value) if isinstance(answer, Present) else ""


def params_webhook(settings: JobSettings, configuration: str) -> Webhook:
    """Returns the webhook that refuses a job with such a parameter.

    It is a convenience: without it the job fails while it is resolved, hence the policy Ignore.
    """
    return Webhook(
        kind="validating",
        name="params.fournos.dev",
        configuration=configuration,
        path="/validate-fournos-dev-v1-fournosjob-params",
        resources=(FOURNOS_JOB,),
        operations=("CREATE",),
        review=review,
        failure_policy="Ignore",
        namespaces={"matchLabels": {"kubernetes.io/metadata.name": settings.namespace}},
        conditions=(("has-params", _HAS_PARAMS),),
    )


def review(request: Request, facts: Facts) -> Review:
    """Refuses parameters that the job's Pipeline does not declare; a missing Pipeline refuses nothing."""
    spec = request.new.get("spec") or {}
    name = str(spec.get("pipeline") or DEFAULT_PIPELINE)
    answer = facts.require(LiveGet(PIPELINE, Key(request.key.namespace, name)))
    if not isinstance(answer, Present):
        return Review()
    params = {param: param_value(value) for param, value in (spec.get("params") or {}).items()}
    text = problem(params, answer.value)
    return Review((Violation("spec.params", text, "params-declared"),) if text else ())
