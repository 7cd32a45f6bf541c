"""Starts a MiniCluster.

The claim is written to the status first; then the objects are created in order. Objects that a person deleted
are created again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import AlreadyExistsError, NotFoundError
from fournos.engine.kube.resource import (
    CONFIG_MAP,
    JOB,
    POD,
    SECRET,
    SERVICE,
    Key,
    Obj,
    Resource,
    controller_of,
    is_terminating,
    key_of,
    owner_uids,
    uid_of,
)
from fournos.engine.queueing.podsets import MissingFlavorError, PodSetInfo, PodSetInfoError, infos_of
from fournos.engine.queueing.workload import QUEUE_NAME_LABEL
from fournos.engine.runtime.decision import (
    Absent,
    Create,
    Custom,
    Decision,
    Patch,
    Present,
    SecretShape,
    Step,
    Unknown,
)
from fournos.systems.miniclusters import build, names
from fournos.systems.miniclusters.broker import KEY_BYTES, certificate
from fournos.systems.miniclusters.build import certificate_secret
from fournos.systems.miniclusters.finish import remove
from fournos.systems.miniclusters.observe import (
    DIGEST,
    ELASTIC_ANNOTATION,
    KEYS,
    QUORUM,
    digest,
    headless_name,
)
from fournos.systems.miniclusters.script import quorum_text
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.miniclusters.spec import cluster_of, spec_of
from fournos.systems.miniclusters.status import (
    FINISHED,
    READY,
    REQUESTED,
    RUNNING,
    SIDECAR_FAILED,
    WAITING,
    Context,
    index_of,
    terminal,
)


@dataclass(frozen=True, slots=True)
class MakeCertificate(Custom):
    """Creates the certificate Secret of this MiniCluster. An existing Secret of this MiniCluster is kept."""

    minicluster: Obj


class Maker:
    """The executor of MakeCertificate."""

    def __init__(
        self, settings: MiniClusterSettings, *, random: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        self._settings = settings
        self._random = random

    async def __call__(self, step: MakeCertificate, api: Api) -> None:
        """Creates the Secret.

        Raises AlreadyExistsError if the name belongs to another owner, and the API server's errors.
        """
        name = str(step.minicluster["metadata"]["name"])
        text = certificate(self._random(KEY_BYTES), host=names.lead(name))
        body: Any = certificate_secret(step.minicluster, self._settings, certificate=text)
        try:
            await api.create(SECRET, body)
        except AlreadyExistsError as error:
            # A second certificate would separate the brokers that run, so our own Secret is kept.
            try:
                live = await api.get(SECRET, key_of(body))
            except NotFoundError:
                raise error from None
            if (controller_of(live) or {}).get("uid") != step.minicluster["metadata"]["uid"]:
                raise


def lost(ctx: Context) -> bool | None:
    """Returns True if the API server confirms that the certificate is missing; None if that is unknown."""
    if ctx.part(SECRET, names.curve(ctx.name)) is not None:
        return False
    question = SecretShape(Key(ctx.namespace, names.curve(ctx.name)))
    answer = ctx.facts.require(question)
    if isinstance(answer, Unknown):
        return None
    if isinstance(answer, Absent):
        return True
    # Either the cache lags behind, or the name belongs to another owner. In the second case the creation
    # fails and reports it.
    assert isinstance(answer, Present)
    return str(ctx.minicluster["metadata"]["uid"]) not in answer.value.owner_uids


# --- resize --------------------------------------------------------------------------------------------
# Resizes a MiniCluster within the hosts that the brokers are configured for and the quota that is held.
#
# The Job's parallelism and completions change together. Kubernetes then adds the next indexes or removes the
# highest ones. The preStop hook of a removed pod drains its rank; a pod that comes back undrains it.


@dataclass(frozen=True, slots=True)
class Resize:
    """The size that the Job should have."""

    size: int
    """The number of pods."""
    refused: str = ""
    """Why it is not the requested size; empty if it is."""


def counts(maximum: int, spec: Mapping[str, Any]) -> dict[str, int]:
    """Returns the Job's parallelism and completions for the size in the spec, limited to `maximum`."""
    size = max(1, min(int(spec.get("size", 1)), maximum))
    return {"parallelism": size, "completions": size}


def allowed(ctx: Context, job: Obj) -> Resize:
    """Returns the size that is allowed now, with the reason if it is not the requested one."""
    asked, now = int(ctx.spec.get("size", 1)), int(job["spec"].get("parallelism", 1))
    size = counts(ctx.draft.maximum, ctx.spec)["parallelism"]
    if size != now and _queued_by_itself(job) and not job["spec"].get("suspend"):
        # Kueue stops a Job whose size differs from the admitted size.
        return Resize(
            now,
            f"size stays {now}: the Job is queued by jobLabels, and Kueue would stop it; put the queue's "
            "name on the MiniCluster itself to resize it while it runs",
        )
    held = _held(ctx)
    if held is not None and size > max(held, now):
        return Resize(
            max(held, now),
            f"size stays {max(held, now)}: the quota of {ctx.draft.maximum - held} pods was given back "
            "when it shrank; suspend the MiniCluster to queue it for all of them again",
        )
    if asked > size:
        return Resize(size, f"size {asked} is more than the {ctx.draft.maximum} hosts that Flux began with")
    return Resize(size)


def _queued_by_itself(job: Obj) -> bool:
    meta = job["metadata"]
    elastic = (meta.get("annotations") or {}).get(ELASTIC_ANNOTATION) == "true"
    return bool((meta.get("labels") or {}).get(QUEUE_NAME_LABEL)) and not elastic


def _held(ctx: Context) -> int | None:
    """Returns for how many pods of the largest size quota is held; None without a Workload."""
    workload = ctx.workload
    if workload is None:
        return None
    given = {
        one["name"]: int(one["count"]) for one in (workload.get("status") or {}).get("reclaimablePods") or ()
    }
    return ctx.draft.maximum - given.get(names.MAIN_POD_SET, 0)


def quorum(ctx: Context, target: Resize) -> tuple[Step, ...]:
    """Returns the patch of the quorum.

    A lead broker that restarts waits for the current number of brokers, not for the number at the start.
    """
    config_map = ctx.part(CONFIG_MAP, names.entrypoint(ctx.name))
    if config_map is None or QUORUM not in config_map:
        return ()
    cluster = cluster_of(ctx.minicluster, ctx.settings)
    text = quorum_text(replace(cluster, spec=cluster.spec.model_copy(update={"size": target.size})))
    if config_map[QUORUM] == text:
        return ()
    return (Patch(CONFIG_MAP, key_of(config_map), {"data": {names.QUORUM_KEY: text}}),)


def steps(ctx: Context, job: Obj, target: Resize) -> tuple[Step, ...]:
    """Returns one patch of the Job if its size or deadline differs."""
    spec: dict[str, Any] = {}
    if int(job["spec"].get("parallelism", 1)) != target.size:
        spec |= {"parallelism": target.size, "completions": target.size}
    deadline = ctx.spec.get("deadlineSeconds")
    if deadline is not None and deadline != job["spec"].get("activeDeadlineSeconds"):
        spec["activeDeadlineSeconds"] = deadline
    if not spec or is_terminating(job):
        return ()
    # The precondition: the sizes must not overwrite a change that this pass has not seen.
    version = job["metadata"]["resourceVersion"]
    return (Patch(JOB, key_of(job), {"metadata": {"resourceVersion": version}, "spec": spec}),)


def leaving(ctx: Context, size: int) -> int:
    """Returns the number of pods beyond the size that still exist."""
    return sum(1 for pod in ctx.pods if not terminal(pod) and (index_of(pod) or 0) >= size)


def given_back(ctx: Context) -> int:
    """Returns the number of pods whose quota is no longer needed.

    These are the pods that a shrink removed, after a live read has confirmed that they are gone. Quota that
    was never used is kept, because the MiniCluster may grow into it.
    """
    job = ctx.job
    if job is None or ctx.workload is None or ctx.draft.ended:
        return 0
    size = int(job["spec"].get("parallelism", 1))
    if ctx.draft.size <= size or leaving(ctx, size):
        return 0
    if not isinstance(ctx.facts.require(ctx.pods_question), Present) or leaving(ctx, size):
        return 0
    return ctx.draft.maximum - size


# --- start ---------------------------------------------------------------------------------------------

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
            body = {**body, "spec": {**body["spec"], **counts(ctx.draft.maximum, ctx.spec)}}
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
