"""`spec.params` against what the Pipeline declares: when the job is created, and when it is resolved.  Pure.

Tekton ignores a parameter that a Pipeline does not declare, so that a typing error would measure the default.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from fournos.api.fournosjob import DEFAULT_PIPELINE
from fournos.api.fournosjob_values import param_value
from fournos.api.kinds import FOURNOS_JOB, PIPELINE
from fournos.engine.api.rules import Violation
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.runtime.decision import Facts, LiveGet, Present
from fournos.engine.runtime.webhook.types import Request, Review, Webhook
from fournos.systems.jobs import names
from fournos.systems.jobs.context import Context
from fournos.systems.jobs.settings import JobSettings

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
