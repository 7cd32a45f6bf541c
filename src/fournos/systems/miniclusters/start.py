"""Starts a MiniCluster.

The claim is written to the status first; then the objects are created in order. Objects that a person deleted
are created again.
"""

from __future__ import annotations

from collections.abc import Mapping

from fournos.engine.kube.resource import (
    CONFIG_MAP,
    JOB,
    POD,
    SERVICE,
    Obj,
    Resource,
    is_terminating,
    key_of,
    owner_uids,
    uid_of,
)
from fournos.engine.queueing.podsets import MissingFlavorError, PodSetInfo, PodSetInfoError, infos_of
from fournos.engine.runtime.decision import Absent, Decision, Present
from fournos.engine.runtime.steps import Create, Patch, Step
from fournos.systems.miniclusters import build, names, resize
from fournos.systems.miniclusters.certificate import MakeCertificate, lost
from fournos.systems.miniclusters.cluster import cluster_of, spec_of
from fournos.systems.miniclusters.context import Context
from fournos.systems.miniclusters.observe import DIGEST, KEYS, digest, headless_name
from fournos.systems.miniclusters.status import FINISHED, READY, REQUESTED, RUNNING, SIDECAR_FAILED, WAITING
from fournos.systems.miniclusters.teardown import remove

_RESOURCES: Mapping[str, Resource] = {one.kind: one for one in (CONFIG_MAP, POD, SERVICE, JOB)}


def claim(ctx: Context) -> Decision:
    """Writes the claim with the largest size.

    The size is fixed from now on, because the brokers' configuration lists so many hosts.
    """
    maximum = cluster_of(ctx.minicluster, ctx.settings).spec.maximum
    ctx.draft.claim(maximum, names.selector(ctx.name))
    ctx.draft.condition(REQUESTED, True, "Created", "The objects of the MiniCluster are made")
    ctx.draft.condition(WAITING, True, "Starting", "Waiting for the pods")
    ctx.draft.condition(RUNNING, False, "Starting")
    ctx.draft.condition(READY, False, "Starting")
    ctx.draft.condition(FINISHED, False, "Starting")
    if ctx.draft.is_true(SIDECAR_FAILED):
        ctx.draft.condition(SIDECAR_FAILED, False, "Starting")
    ctx.draft.phased("Waiting", "Waiting for the pods")
    return ctx.decision()


def missing(ctx: Context) -> tuple[Step, ...] | Decision:
    """Returns the steps that create the missing objects, or the decision to wait or to restart."""
    without = lost(ctx)
    if without is None:
        return Decision(retry=True)
    steps: list[Step] = []
    job = ctx.job
    if without:
        if job is not None:
            return _restart(ctx)
        steps.append(MakeCertificate(ctx.minicluster))
    if not without and _all_there(ctx):
        return ()
    service = _headless(ctx)
    if isinstance(service, str):
        return waits(ctx, "ServiceTaken", service)
    # An existing Service has other owners too, and each of them changes it. A conflict there must not delay
    # the other objects, so its patch comes last.
    steps += [step for step in service if isinstance(step, Create)]
    try:
        objects = build.wanted(ctx.minicluster, ctx.settings, infos=_infos(ctx))
    except (MissingFlavorError, PodSetInfoError) as error:
        return waits(ctx, "AdmissionUnusable", str(error))
    for body in objects:
        steps += _part(ctx, body, begun=job is not None)
    return (*steps, *(step for step in service if isinstance(step, Patch)))


def _all_there(ctx: Context) -> bool:
    """True if nothing is missing. This is the usual case, and it builds no objects."""
    headless = ctx.observed.made.get((SERVICE, headless_name(ctx.minicluster)))
    if ctx.job is None or headless is None or uid_of(ctx.minicluster) not in owner_uids(headless):
        return False
    parts = [(CONFIG_MAP, names.entrypoint(ctx.name))]
    if ctx.spec.get("services"):
        parts.append((POD, names.services_pod(ctx.name)))
    containers = ctx.spec["containers"]
    if len(containers) > 1 and any(container.get("ports") for container in containers):
        runs = spec_of(ctx.minicluster).runner_index
        beside = [container for index, container in enumerate(containers) if index != runs]
        parts += [(SERVICE, container["name"]) for container in beside if container.get("ports")]
    return all(ctx.part(resource, name) is not None for resource, name in parts)


def _part(ctx: Context, body: Obj, *, begun: bool) -> tuple[Step, ...]:
    """Returns the step that creates or updates one object; empty if it is as wanted."""
    resource = _RESOURCES[body["kind"]]
    existing = ctx.part(resource, body["metadata"]["name"])
    if existing is None:
        if resource == JOB:
            body = {**body, "spec": {**body["spec"], **resize.counts(ctx.draft.maximum, ctx.spec)}}
        return (Create(resource, body),)
    if resource == CONFIG_MAP and not begun and existing[DIGEST] != digest(body["data"]):
        # The ConfigMap of an earlier start. A running MiniCluster keeps the scripts that it was started with.
        version = existing["metadata"]["resourceVersion"]
        patch = {
            "metadata": {"resourceVersion": version},
            "data": {**dict.fromkeys(existing[KEYS]), **body["data"]},
        }
        return (Patch(CONFIG_MAP, key_of(body), patch),)
    return ()


def _headless(ctx: Context) -> tuple[Step, ...] | str:
    """Returns the step for the headless Service, or the message why its name cannot be used.

    Other MiniClusters may share it, so ours is one owner of several.
    """
    name = headless_name(ctx.minicluster)
    existing = ctx.observed.made.get((SERVICE, name))
    body = build.headless_service(ctx.minicluster, ctx.settings, existing=existing)
    if isinstance(body, str):
        return body
    if existing is None:
        return (Create(SERVICE, body, own_label=names.HEADLESS_LABEL),)
    if body == existing:
        return ()
    meta = {
        "resourceVersion": existing["metadata"]["resourceVersion"],
        "ownerReferences": body["metadata"]["ownerReferences"],
    }
    # A merge patch keeps the keys that it does not list, so keys to remove are listed with null.
    selector = dict.fromkeys(existing["spec"].get("selector") or {}) | dict(body["spec"]["selector"])
    return (Patch(SERVICE, key_of(existing), {"metadata": meta, "spec": {"selector": selector}}),)


def _infos(ctx: Context) -> dict[str, PodSetInfo]:
    """Returns the admission's changes per pod set; empty without an admission."""
    workload = ctx.workload
    if workload is None or not (workload.get("status") or {}).get("admission"):
        return {}
    return {info.name: info for info in infos_of(workload, ctx.observed.inputs.flavors)}


def _restart(ctx: Context) -> Decision:
    """Takes everything down and starts again with a new certificate.

    Without the certificate of the running brokers no new pod can join them.
    """
    removal = remove(ctx)
    text = "The Secret with the certificate is gone: the MiniCluster starts again with a new one"
    if removal.steps:
        ctx.draft.event("CertificateLost", text, warning=True)
    ctx.draft.condition(RUNNING, False, "CertificateLost", text)
    ctx.draft.condition(READY, False, "CertificateLost", text)
    ctx.draft.phased("Waiting", text).put(ready=0)
    return ctx.decision(removal.steps, retry=removal.unsure)


def confirmed(ctx: Context) -> bool:
    """True if a Job may be created: the MiniCluster is as cached, and no earlier Job is terminating."""
    if not ctx.up_to_date():
        return False
    # A live read: a Job that is being deleted still has this name.
    answer = ctx.facts.require(ctx.job_question)
    if isinstance(answer, Present):
        return not is_terminating(answer.value)
    return isinstance(answer, Absent)


def waits(ctx: Context, reason: str, message: str, *, retry: bool = True) -> Decision:
    """Sets the phase Waiting with this message, until something outside the operator changes."""
    if ctx.draft.message != message:
        ctx.draft.event(reason, message, warning=True)
    ctx.draft.condition(REQUESTED, False, reason, message)
    ctx.draft.phased("Waiting", message)
    return ctx.decision(retry=retry)
