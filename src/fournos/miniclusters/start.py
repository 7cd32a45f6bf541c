"""From waiting to running: what is going to be made is claimed in the status, then made, in order; and what
somebody has deleted is made again."""

from __future__ import annotations

from collections.abc import Mapping

from fournos.kube.kinds import CONFIG_MAP, JOB, POD
from fournos.kube.resource import Obj, Resource, is_terminating, key_of, owner_uids, uid_of
from fournos.miniclusters import build, names, resize
from fournos.miniclusters.certificate import MakeCertificate, lost
from fournos.miniclusters.cluster import cluster_of, spec_of
from fournos.miniclusters.context import Context
from fournos.miniclusters.kinds import SERVICE
from fournos.miniclusters.observe import DIGEST, KEYS, digest, headless_name
from fournos.miniclusters.status import BESIDE, FINISHED, READY, REQUESTED, RUNNING, WAITING
from fournos.miniclusters.teardown import remove
from fournos.queueing.podsets import MissingFlavorError, PodSetInfo, PodSetInfoError, infos_of
from fournos.runtime.decision import Absent, Decision, Present
from fournos.runtime.steps import Create, Patch, Step

_RESOURCES: Mapping[str, Resource] = {one.kind: one for one in (CONFIG_MAP, POD, SERVICE, JOB)}


def claim(ctx: Context) -> Decision:
    """The largest size holds from now on: the brokers' configuration names so many hosts."""
    maximum = cluster_of(ctx.minicluster, ctx.settings).spec.maximum
    ctx.draft.claim(maximum, names.selector(ctx.name))
    ctx.draft.condition(REQUESTED, True, "Created", "The objects of the MiniCluster are made")
    ctx.draft.condition(WAITING, True, "Starting", "Waiting for the pods")
    ctx.draft.condition(RUNNING, False, "Starting")
    ctx.draft.condition(READY, False, "Starting")
    ctx.draft.condition(FINISHED, False, "Starting")
    if ctx.draft.is_true(BESIDE):
        ctx.draft.condition(BESIDE, False, "Starting")
    ctx.draft.phased("Waiting", "Waiting for the pods")
    return ctx.decision()


def missing(ctx: Context) -> tuple[Step, ...] | Decision:
    """The steps that make what is not there."""
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
    # Others own an existing one with us, and its owners change with each of them: that must hold nothing up.
    steps += [step for step in service if isinstance(step, Create)]
    try:
        objects = build.wanted(ctx.minicluster, ctx.settings, infos=_infos(ctx))
    except (MissingFlavorError, PodSetInfoError) as error:
        return waits(ctx, "AdmissionUnusable", str(error))
    for body in objects:
        steps += _part(ctx, body, begun=job is not None)
    return (*steps, *(step for step in service if isinstance(step, Patch)))


def _all_there(ctx: Context) -> bool:
    """The usual case, without building anything."""
    headless = ctx.observed.made.get((SERVICE, headless_name(ctx.minicluster)))
    if ctx.job is None or headless is None or uid_of(ctx.minicluster) not in owner_uids(headless):
        return False
    parts = [(CONFIG_MAP, names.entrypoint(ctx.name))]
    if ctx.spec.get("services"):
        parts.append((POD, names.services_pod(ctx.name)))
    containers = ctx.spec["containers"]
    if len(containers) > 1 and any(one.get("ports") for one in containers):
        runs = spec_of(ctx.minicluster).runner_index
        beside = [one for index, one in enumerate(containers) if index != runs]
        parts += [(SERVICE, one["name"]) for one in beside if one.get("ports")]
    return all(ctx.part(resource, name) is not None for resource, name in parts)


def _part(ctx: Context, body: Obj, *, begun: bool) -> tuple[Step, ...]:
    resource = _RESOURCES[body["kind"]]
    found = ctx.part(resource, body["metadata"]["name"])
    if found is None:
        if resource == JOB:
            body = {**body, "spec": {**body["spec"], **resize.counts(ctx.draft.maximum, ctx.spec)}}
        return (Create(resource, body),)
    if resource == CONFIG_MAP and not begun and found[DIGEST] != digest(body["data"]):
        # Of a start before this one; a MiniCluster that runs keeps the scripts that it began with.
        version = found["metadata"]["resourceVersion"]
        patch = {
            "metadata": {"resourceVersion": version},
            "data": {**dict.fromkeys(found[KEYS]), **body["data"]},
        }
        return (Patch(CONFIG_MAP, key_of(body), patch),)
    return ()


def _headless(ctx: Context) -> tuple[Step, ...] | str:
    """Shared with other MiniClusters: ours is one owner of several."""
    name = headless_name(ctx.minicluster)
    found = ctx.observed.made.get((SERVICE, name))
    wanted = build.headless_service(ctx.minicluster, ctx.settings, existing=found)
    if isinstance(wanted, str):
        return wanted
    if found is None:
        return (Create(SERVICE, wanted, own_label=names.HEADLESS_LABEL),)
    if wanted == found:
        return ()
    meta = {
        "resourceVersion": found["metadata"]["resourceVersion"],
        "ownerReferences": wanted["metadata"]["ownerReferences"],
    }
    # A merge patch keeps keys that are not named: the ones to go are named.
    selector = dict.fromkeys(found["spec"].get("selector") or {}) | dict(wanted["spec"]["selector"])
    return (Patch(SERVICE, key_of(found), {"metadata": meta, "spec": {"selector": selector}}),)


def _infos(ctx: Context) -> dict[str, PodSetInfo]:
    workload = ctx.workload
    if workload is None or not (workload.get("status") or {}).get("admission"):
        return {}
    return {info.name: info for info in infos_of(workload, ctx.observed.inputs.flavors)}


def _restart(ctx: Context) -> Decision:
    """Without the certificate that its brokers have no new pod can join: all begin anew with another."""
    removal = remove(ctx)
    text = "The Secret with the certificate is gone: the MiniCluster starts again with a new one"
    if removal.steps:
        ctx.draft.event("CertificateLost", text, warning=True)
    ctx.draft.condition(RUNNING, False, "CertificateLost", text)
    ctx.draft.condition(READY, False, "CertificateLost", text)
    ctx.draft.phased("Waiting", text).put(ready=0)
    return ctx.decision(removal.steps, retry=removal.unsure)


def confirmed(ctx: Context) -> bool:
    """Before a Job is made: this MiniCluster is as the cache says, and no Job is going."""
    if not ctx.up_to_date():
        return False
    answer = ctx.facts.require(ctx.job_question)
    if isinstance(answer, Present):
        return not is_terminating(answer.value)
    return isinstance(answer, Absent)


def waits(ctx: Context, reason: str, message: str, *, retry: bool = True) -> Decision:
    """Something outside has to change first."""
    if ctx.draft.message != message:
        ctx.draft.event(reason, message, warning=True)
    ctx.draft.condition(REQUESTED, False, reason, message)
    ctx.draft.phased("Waiting", message)
    return ctx.decision(retry=retry)
