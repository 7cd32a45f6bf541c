"""Reads from the caches: watches, projections, indexes, and the mapping from events to keys to reconcile."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from typing import Any

from pydantic import ValidationError

from fournos.api.fournosjob import FournosJobSpec
from fournos.api.kinds import FOURNOS_JOB, PIPELINE, PIPELINE_RUN
from fournos.api.phase import HOLDING, TERMINAL
from fournos.engine.kube.resource import JOB, Key, Obj, controller_of, key_of, uid_of
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR, WORKLOAD, WORKLOAD_PRIORITY_CLASS
from fournos.engine.queueing.observe import covered
from fournos.engine.runtime.controller import Caches, Watch, controller_uid, no_keys, pick, waking_by
from fournos.systems.jobs import names
from fournos.systems.jobs.pending import NAMING_AT_MOST, waits_for
from fournos.systems.jobs.queue import CHOOSING_AT_MOST, free_quota
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.jobs.status import FreeQuota, Observed

OWNER, CLUSTER, PRIORITY, WAITS_FOR, CHOICE = "owner", "cluster", "priority", "waits for", "choice"


def watches(settings: JobSettings) -> tuple[Watch, ...]:
    """Returns the watches of the FournosJob controller.

    The kinds of Kueue and Tekton are not required: their CRDs may be installed later.
    """
    namespace = settings.namespace
    managed = f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY}"
    by_owner = {OWNER: controller_uid}
    return (
        Watch(
            FOURNOS_JOB,
            namespace=namespace,
            wakes=_own_key_and_waiting,
            indexes={
                CLUSTER: _held_cluster,
                PRIORITY: _wanted_priority,
                WAITS_FOR: waits_for,
                CHOICE: _accepts_others,
            },
        ),
        Watch(
            WORKLOAD,
            namespace=namespace,
            selector=managed,
            wakes=_owner_key,
            indexes=by_owner,
            required=False,
        ),
        Watch(
            PIPELINE_RUN,
            namespace=namespace,
            selector=managed,
            wakes=_owner_key,
            indexes=by_owner,
            project=project_run,
            required=False,
        ),
        Watch(
            JOB,
            namespace=namespace,
            wakes=_owner_key,
            indexes=by_owner,
            project=project_job,
        ),
        Watch(PIPELINE, namespace=namespace, wakes=no_keys, project=project_pipeline, required=False),
        Watch(RESOURCE_FLAVOR, wakes=no_keys, project=project_metadata, required=False),
        Watch(CLUSTER_QUEUE, wakes=_choosing, project=project_queue, required=False),
        Watch(WORKLOAD_PRIORITY_CLASS, wakes=waking_by(FOURNOS_JOB, PRIORITY), required=False),
    )


class Observer:
    """Builds `Observed` from the caches; parses each spec once per generation."""

    def __init__(self, settings: JobSettings) -> None:
        self._settings = settings
        self._specs: dict[Key, tuple[str, int, FournosJobSpec, str]] = {}
        """Key → UID and generation, the parsed spec and its validation error; of jobs that exist."""
        self._queued: dict[Key, str] = {}
        """Key → UID of jobs that exist and that a pass has seen Pending."""

    def __call__(self, caches: Caches, key: Key) -> Observed | None:
        job = caches[FOURNOS_JOB].get(key)
        if job is None:
            self._specs.pop(key, None)
            self._queued.pop(key, None)
            return None
        spec, problem = self._spec(key, job)
        uid, prebuilt = uid_of(job), prebuilt_name(job)
        priority = caches[WORKLOAD_PRIORITY_CLASS].get(Key("", spec.priority)) if spec.priority else None
        # Only the message of a queued job names the holders of its cluster, of which there may be a hundred.
        queued = (job.get("status") or {}).get("phase") == "Pending"
        queued_before = self._queued.get(key) == uid
        if queued:
            self._queued[key] = uid
        holders = self._holders(caches, spec.cluster, but=key) if queued else []
        exclusive = tuple(name for name, alone in holders if alone)
        flavors = frozenset(flavor["metadata"]["name"] for flavor in caches[RESOURCE_FLAVOR])
        queues = tuple(caches[CLUSTER_QUEUE])
        return Observed(
            key=key,
            job=job,
            spec=spec,
            problem=problem,
            workloads=caches[WORKLOAD].by(OWNER, uid),
            queued_before=queued_before,
            prebuilt=caches[WORKLOAD].get(Key(key.namespace, prebuilt)) if prebuilt else None,
            runs=caches[PIPELINE_RUN].by(OWNER, uid),
            resolve_jobs=tuple(one for one in caches[JOB].by(OWNER, uid) if _resolves(one, key.name)),
            pipeline=caches[PIPELINE].get(Key(key.namespace, spec.pipeline)),
            flavors=flavors,
            checks=any(queue["checked"] for queue in queues),
            gpu_resources=frozenset(name for queue in queues for name in self._gpu_names(queue)),
            priority_value=int(priority["value"]) if priority else None,
            holders=tuple(name for name, _ in holders),
            exclusive_holders=exclusive,
            may_name_holder=not exclusive or self._may_name(caches, exclusive[0], job),
            all_locked=queued and not spec.cluster and self._all_locked(caches, flavors),
            free_quota=tuple(map(_free_quota, queues)) if _accepts_others(job) else (),
        )

    def _spec(self, key: Key, job: Obj) -> tuple[FournosJobSpec, str]:
        """Returns the spec, or an empty spec and the validation error.

        The error occurs for an object that was stored before the CRD's schema refused it.
        """
        uid, generation = uid_of(job), int(job["metadata"].get("generation") or 0)
        parsed = self._specs.get(key)
        if parsed and parsed[:2] == (uid, generation):
            return parsed[2:]
        try:
            spec, problem = FournosJobSpec.model_validate(job.get("spec") or {}), ""
        except ValidationError as error:
            wrong = (f"spec.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            spec, problem = FournosJobSpec(), "; ".join(wrong)
        self._specs[key] = (uid, generation, spec, problem)
        return spec, problem

    def _gpu_names(self, queue: Obj) -> Iterable[str]:
        prefix = self._settings.gpu_resource_prefix
        return (name for name in queue["covered"] if name.startswith(prefix))

    def _holders(self, caches: Caches, cluster: str | None, *, but: Key) -> list[tuple[str, bool]]:
        if not cluster:
            return []
        jobs = (job for job in caches[FOURNOS_JOB].by(CLUSTER, cluster) if key_of(job) != but)
        return sorted((job["metadata"]["name"], _exclusive(job)) for job in jobs)

    def _may_name(self, caches: Caches, holder: str, job: Obj) -> bool:
        naming = caches[FOURNOS_JOB].by(WAITS_FOR, f"job/{holder}")
        return len(naming) < NAMING_AT_MOST or any(uid_of(one) == uid_of(job) for one in naming)

    def _all_locked(self, caches: Caches, flavors: frozenset[str]) -> bool:
        return bool(flavors) and all(
            any(_exclusive(job) for job in caches[FOURNOS_JOB].by(CLUSTER, flavor)) for flavor in flavors
        )


# --- indexes -----------------------------------------------------------------------------------------


def _held_cluster(job: Obj) -> Iterable[str]:
    status = job.get("status") or {}
    return (status["cluster"],) if status.get("cluster") and status.get("phase") in HOLDING else ()


def _wanted_priority(job: Obj) -> Iterable[str]:
    """Index of Pending jobs by priority class: they may wait for the class to be created."""
    priority = (job.get("spec") or {}).get("priority")
    return (priority,) if priority and (job.get("status") or {}).get("phase") == "Pending" else ()


def _accepts_others(job: Obj) -> Iterable[str]:
    """Index of waiting jobs with several GPU types: what they ask for depends on the quota that is free.

    A job that MultiKueue dispatches has no phase on its manager cluster until a worker runs it.
    """
    spec, phase = job.get("spec") or {}, (job.get("status") or {}).get("phase")
    choosing = (spec.get("hardware") or {}).get("alternatives") and not spec.get("suspend")
    return (CHOICE,) if choosing and phase not in HOLDING | TERMINAL else ()


def _resolves(job: Obj, name: str) -> bool:
    """Returns True if a Job's label marks it as the resolver of this FournosJob.

    Its name is not sufficient.
    """
    return (job["metadata"].get("labels") or {}).get(names.JOB_NAME_LABEL) == name


def _exclusive(job: Obj) -> bool:
    spec = job.get("spec") or {}
    return bool(spec.get("exclusive", True) or spec.get("lockOnly"))


def _free_quota(queue: Obj) -> FreeQuota:
    return FreeQuota(queue["metadata"]["name"], queue["cohort"], queue["free"])


# --- event mapping: which keys a change enqueues -----------------------------------------------------


def _own_key_and_waiting(job: Obj, caches: Caches) -> Iterable[Key]:
    """Enqueues the job, and waiting jobs whose messages change because it takes or releases its cluster."""
    jobs, key = caches[FOURNOS_JOB], key_of(job)
    status = (jobs.get(key) or {}).get("status") or {}
    waiting: tuple[Obj, ...] = ()
    if status.get("phase") not in HOLDING:
        waiting = jobs.by(WAITS_FOR, f"job/{key.name}")
    elif status["phase"] == "Admitted" and _exclusive(job):
        waiting = jobs.by(WAITS_FOR, f"cluster/{status.get('cluster')}")
    return (key, *(key_of(one) for one in waiting))


def _owner_key(obj: Obj, caches: Caches) -> Iterable[Key]:
    owner = controller_of(obj)
    if owner and owner["kind"] == FOURNOS_JOB.kind and owner["apiVersion"] == FOURNOS_JOB.api_version:
        return (Key(obj["metadata"].get("namespace") or "", owner["name"]),)
    return ()


def _choosing(_: Obj, caches: Caches) -> Iterable[Key]:
    """Enqueues the oldest jobs that may ask for other GPUs; the next ones follow when these are admitted."""
    jobs = caches[FOURNOS_JOB].by(CHOICE, CHOICE)
    oldest = nsmallest(CHOOSING_AT_MOST, jobs, key=lambda job: job["metadata"].get("creationTimestamp") or "")
    return tuple(map(key_of, oldest))


# --- projections: the fields that decisions read ------------------------------------------------------


def project_metadata(obj: Obj) -> Obj:
    kept = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "annotations")
    return {"metadata": pick(obj["metadata"], kept)}


def project_pipeline(pipeline: Obj) -> Obj:
    spec = pipeline.get("spec") or {}
    sections = {
        section: [
            {name: task[name] for name in ("name", "timeout") if name in task} for task in spec[section]
        ]
        for section in ("tasks", "finally")
        if spec.get(section)
    }
    if spec.get("params"):
        sections["params"] = [pick(param, ("name", "type")) for param in spec["params"]]
    return {**project_metadata(pipeline), "spec": sections}


def project_run(run: Obj) -> Obj:
    status = run.get("status") or {}
    run_status: dict[str, Any] = {
        name: status[name] for name in ("conditions", "startTime", "completionTime") if name in status
    }
    return {
        "metadata": _owned_metadata(run),
        "spec": {"status": (run.get("spec") or {}).get("status")},
        "status": run_status,
    }


def project_job(job: Obj) -> Obj:
    conditions = (job.get("status") or {}).get("conditions") or []
    return {"metadata": _owned_metadata(job), "status": {"conditions": conditions}}


def project_queue(queue: Obj) -> Obj:
    checked = bool((queue.get("spec") or {}).get("admissionChecksStrategy"))
    cohort = (queue.get("spec") or {}).get("cohortName") or ""
    return {
        **project_metadata(queue),
        "covered": tuple(covered(queue)),
        "checked": checked,
        "cohort": cohort,
        "free": free_quota(queue),
    }


def _owned_metadata(obj: Obj) -> dict[str, Any]:
    fields = (
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "finalizers",
        "labels",
        "ownerReferences",
    )
    return pick(obj["metadata"], fields)
