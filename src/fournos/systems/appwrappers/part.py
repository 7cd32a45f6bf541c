"""The part `appwrappers`: AppWrappers."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from fournos.api.appwrapper import DEFINITION
from fournos.api.kinds import APPWRAPPER
from fournos.engine.api.rules import Violation
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.job import MULTIKUEUE, managed_elsewhere
from fournos.engine.queueing.kinds import LOCAL_QUEUE
from fournos.engine.queueing.managed_by import leaves
from fournos.engine.queueing.workload import KUEUE, QUEUE_NAME_LABEL
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Controller
from fournos.engine.runtime.decision import Facts, LiveGet, Present, Unknown
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import APPWRAPPER as APPWRAPPER_API
from fournos.engine.runtime.part import Part, Running, Wake, WebhookManifest
from fournos.engine.runtime.webhook.registration import Service
from fournos.engine.runtime.webhook.review import Request, Review, Webhook
from fournos.systems.appwrappers import names
from fournos.systems.appwrappers.admission import review
from fournos.systems.appwrappers.decide import decide
from fournos.systems.appwrappers.kinds import InferenceError, infer, section, wrapped_kind
from fournos.systems.appwrappers.metrics import count_phase, report
from fournos.systems.appwrappers.observe import Observer, follow, watches
from fournos.systems.appwrappers.rules import RULES
from fournos.systems.appwrappers.settings import AppWrapperSettings
from fournos.systems.appwrappers.status import Observed

_LABEL_MAX = 63
_NO_LABEL = re.compile(r"[^-_.A-Za-z0-9]")
_DEFAULT_QUEUE = "default"
"""The LocalQueue that Kueue assigns to jobs without a queue, if it exists."""


def default(request: Request, facts: Facts, *, settings: AppWrapperSettings) -> Review:
    """Returns the mutating webhook's answer to a creation.

    It runs before the schema validation, so any content must be expected. It sets the labels of the user who
    created the AppWrapper. It writes the pod sets of kinds that Kueue's own inference does not know. If this
    operator creates the Workloads, it suspends every AppWrapper; otherwise Kueue's does.
    """
    new = request.new
    labels = section(section(new, "metadata"), "labels")
    own_labels = {
        names.USER_LABEL: label_value(request.user.name),
        names.USER_ID_LABEL: label_value(request.user.uid),
    }
    queue = labels.get(QUEUE_NAME_LABEL)
    if not queue and settings.workloads == "own":
        question = LiveGet(LOCAL_QUEUE, Key(request.key.namespace, _DEFAULT_QUEUE))
        match facts.require(question):
            case Unknown(reason):
                return _queue_unknown("whether there is a default queue", reason)
            case Present():
                queue = _DEFAULT_QUEUE
    elsewhere: bool | Unknown = False
    if queue:
        own_labels[QUEUE_NAME_LABEL] = queue
        elsewhere = settings.workloads == "own" and leaves(_to_dispatch(request), queue, facts)
    if isinstance(elsewhere, Unknown):
        return _queue_unknown("whether the queue leads to other clusters", elsewhere.reason)
    patch: dict[str, Any] = {}
    differing = {key: value for key, value in own_labels.items() if labels.get(key) != value}
    if differing:
        patch["metadata"] = {"labels": differing}
    spec = _spec(new, suspend=settings.workloads == "own")
    if elsewhere:
        spec["managedBy"] = MULTIKUEUE
    if spec:
        patch["spec"] = spec
    return Review(patch=patch)


def _to_dispatch(request: Request) -> Obj:
    """Returns the AppWrapper with its namespace. `managedBy` is kept only if it names another controller."""
    spec = section(request.new, "spec")
    kept = {"managedBy": spec["managedBy"]} if spec.get("managedBy") not in names.MANAGED_BY_US else {}
    meta = {**section(request.new, "metadata"), "namespace": request.key.namespace}
    return {"metadata": meta, "spec": kept}


def _queue_unknown(what: str, reason: str) -> Review:
    """Returns a transient refusal; the client may try again."""
    text = f"could not learn {what}, try again: {reason}"
    return Review((Violation(f"metadata.labels[{QUEUE_NAME_LABEL}]", text, "queue"),), transient=True)


def _spec(new: Obj, *, suspend: bool) -> dict[str, Any]:
    """Returns the changes of the spec: `suspend` and the pod sets."""
    spec = section(new, "spec")
    patch: dict[str, Any] = {"suspend": True} if suspend and spec.get("suspend") is not True else {}
    before = spec.get("components")
    if isinstance(before, list):
        after = [_with_pod_sets(component) for component in before]
        if after != before:
            patch["components"] = after
    return patch


def _with_pod_sets(component: Any) -> Any:
    """Returns the component with its inferred pod sets, if the user declared none."""
    template = section(component, "template")
    kind = wrapped_kind(template)
    if kind is None or kind.kueue_counts(template) or kind.bare or component.get("podSets"):
        return component
    try:
        inferred = infer(template)
    except InferenceError:
        return component  # the validating webhook refuses it and gives the reason
    return {
        **component,
        "podSets": [{"path": pod_set.path, "replicas": pod_set.replicas} for pod_set in inferred],
    }


def label_value(text: str) -> str:
    """Returns the text as a valid label value of at most 63 characters."""
    return _NO_LABEL.sub("_", text[:_LABEL_MAX]).strip("-_.")


# --- webhooks ------------------------------------------------------------------------------------------
# The admission webhooks of AppWrappers, with the names of the published operator's webhooks.


def appwrapper_webhooks(settings: AppWrapperSettings) -> tuple[Webhook, ...]:
    """Returns the webhooks.

    They fail closed: without the review, users could create what only the operator may.
    """
    return (
        Webhook(
            kind="mutating",
            name="mappwrapper.kb.io",
            configuration="appwrapper-mutating-webhook-configuration",
            path="/mutate-workload-codeflare-dev-v1beta2-appwrapper",
            resources=(APPWRAPPER,),
            operations=("CREATE",),
            review=partial(default, settings=settings),
        ),
        Webhook(
            kind="validating",
            name="vappwrapper.kb.io",
            configuration="appwrapper-validating-webhook-configuration",
            path="/validate-workload-codeflare-dev-v1beta2-appwrapper",
            resources=(APPWRAPPER,),
            operations=("CREATE", "UPDATE"),
            review=partial(review, settings=settings),
        ),
    )


# --- the controller ------------------------------------------------------------------------------------

APPWRAPPERS = "appwrappers"


def appwrappers_controller(
    settings: AppWrapperSettings, *, written: Callable[[Obj, Obj], None] | None = None
) -> Controller[Observed]:
    """Returns the controller of AppWrappers. `written` is called after each status write."""
    return Controller(
        name=APPWRAPPERS,
        published_name="AppWrapper",
        watches=watches(settings),
        observe=Observer(),
        decide=partial(decide, settings=settings),
        primary=lambda observed: observed.wrapper,
        owns_status=lambda primary: not managed_elsewhere(primary.get("spec") or {}),
        follow=follow,
        written=written,
    )


# --- the declaration -----------------------------------------------------------------------------------


def start(settings: AppWrapperSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    return Running(
        [appwrappers_controller(settings, written=partial(count_phase, metrics))],
        refresh=lambda manager: report(manager.caches(APPWRAPPERS), metrics),
    )


PART = Part(
    name=APPWRAPPERS,
    title="AppWrappers (`fournos run --enable appwrappers`)",
    settings=AppWrapperSettings,
    start=start,
    lease="appwrappers",
    namespace="appwrapper-system",
    required=(APPWRAPPER_API, KUEUE),
    webhooks=appwrapper_webhooks,
    webhook_manifest=WebhookManifest(
        "deploy/appwrapper/webhooks.yaml",
        Service("appwrapper-system", "appwrapper-webhook-service"),
        AppWrapperSettings,
    ),
    kinds=((DEFINITION, RULES),),
)
