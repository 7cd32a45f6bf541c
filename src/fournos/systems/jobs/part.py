"""The part `jobs`: FournosJobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from fournos.api.fournosjob import DEFINITION
from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.api.values import creation_time
from fournos.engine.kube.resource import (
    JOB,
    Key,
    Obj,
    Resource,
    absent,
    controller_of,
    controls,
    is_terminating,
    key_of,
    uid_of,
)
from fournos.engine.queueing.job import managed_elsewhere
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.workload import KUEUE
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.context import holds
from fournos.engine.runtime.controller import Caches, Controller, no_keys, of_each
from fournos.engine.runtime.decision import Absent, Decision, Delete, Facts, LiveGet, Present, Unknown
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import FOURNOS, TEKTON, Part, Running, Wake, WebhookManifest
from fournos.engine.runtime.webhook.registration import Service
from fournos.systems.jobs import names
from fournos.systems.jobs.decide import decide
from fournos.systems.jobs.metrics import JobMetrics
from fournos.systems.jobs.names import LEASE
from fournos.systems.jobs.observe import Observer, watches
from fournos.systems.jobs.own_job import job_webhooks
from fournos.systems.jobs.rules import RULES
from fournos.systems.jobs.run import let_go
from fournos.systems.jobs.settings import JobSettings, Template, load_template, template_roots
from fournos.systems.jobs.status import Observed

# --- garbage collection --------------------------------------------------------------------------------
# Garbage collection of objects whose labels name a FournosJob that does not exist.
#
# Kubernetes deletes objects that have an owner reference.  This controller deletes those that lost
# it.  An object is deleted only if it has both of our labels, has a minimum age, and a live read
# confirms that the job is absent.

_MIN_AGE = timedelta(seconds=15)
"""The minimum age; younger objects may belong to a deletion that Kubernetes has not finished."""
_CHILDREN: tuple[Resource, ...] = (WORKLOAD, PIPELINE_RUN, JOB)
_NAME = "job-name"


@dataclass(frozen=True, slots=True)
class OrphanedObjects:
    """Objects whose labels name a job that does not own them."""

    key: Key
    """The key of the job that the labels name."""
    children: tuple[tuple[Resource, Obj], ...]


def observe(caches: Caches, key: Key) -> OrphanedObjects | None:
    """Returns the objects whose labels name this job and that it does not own; None if there are none."""
    job = caches[FOURNOS_JOB].get(key)
    children = tuple(
        (resource, obj)
        for resource in _CHILDREN
        for obj in caches[resource].by(_NAME, key.name)
        if obj["metadata"]["namespace"] == key.namespace and _is_lost(obj, job)
    )
    return OrphanedObjects(key, children) if children else None


def decide_orphan(observed: OrphanedObjects, facts: Facts, now: datetime) -> Decision:
    """Deletes objects of the minimum age, if a live read confirms that the job does not exist.  Pure."""
    old = [(kind, obj) for kind, obj in observed.children if _old_enough(obj, now)]
    if not old:
        return Decision(wake_at=min(creation_time(obj) for _, obj in observed.children) + _MIN_AGE)
    # A live read: the cache may not show a job that exists.
    answer = facts.require(LiveGet(FOURNOS_JOB, observed.key))
    if isinstance(answer, Unknown) or (isinstance(answer, Absent) and answer.no_kind):
        return Decision()
    job = answer.value if isinstance(answer, Present) else None
    why = f"garbage: FournosJob {observed.key.name} does not exist"
    lost = [(kind, obj) for kind, obj in old if _is_lost(obj, job)]
    released = let_go(obj for kind, obj in lost if kind is PIPELINE_RUN)
    deleted = (
        Delete(kind, key_of(obj), uid_of(obj), why=why) for kind, obj in lost if not is_terminating(obj)
    )
    return Decision(steps=(*released, *deleted))


def collect(caches: Caches) -> Iterable[Key]:
    """Yields the keys of jobs that a child's label names and that do not own it."""

    def lost(obj: Obj) -> list[Key]:
        keys = [Key(obj["metadata"]["namespace"], name) for name in _named(obj)]
        return [key for key in keys if _is_lost(obj, caches[FOURNOS_JOB].get(key))]

    for resource in _CHILDREN:
        for keys in of_each(caches[resource], lost, "garbage collection of jobs"):
            yield from keys


def orphans_controller(settings: JobSettings) -> Controller[OrphanedObjects]:
    """Returns the controller of orphans.

    No watch event enqueues a key: the periodic garbage collection finds them.
    """
    resources = (FOURNOS_JOB, *_CHILDREN)
    return Controller(
        name="orphans",
        watches=tuple(
            replace(
                watch,
                wakes=no_keys,
                indexes={} if watch.resource is FOURNOS_JOB else {_NAME: _named},
            )
            for watch in watches(settings)
            if watch.resource in resources
        ),
        observe=observe,
        decide=decide_orphan,
        primary=lambda orphans: absent(orphans.key),
        collect=collect,
    )


def _named(obj: Obj) -> Iterable[str]:
    """Yields the job name of an object's labels, unless the object has a controller.

    Kubernetes deletes an object with its controller, whatever the labels are; but for a run that our
    finalizer holds although the job is gone, because the finalizer of the job was removed by hand.
    """
    labels = obj["metadata"].get("labels") or {}
    held = is_terminating(obj) and holds(obj, names.RUN_FINALIZER)
    if labels.get(names.MANAGED_BY_LABEL) != names.MANAGED_BY or (controller_of(obj) and not held):
        return ()
    name = labels.get(names.JOB_NAME_LABEL)
    return (name,) if name else ()


def _is_lost(obj: Obj, job: Obj | None) -> bool:
    """Returns True if the job is not there, or is another one than the object's controller."""
    return job is None or bool(controller_of(obj) and not controls(job, obj))


def _old_enough(obj: Obj, now: datetime) -> bool:
    return now - creation_time(obj) >= _MIN_AGE


# --- controllers ---------------------------------------------------------------------------------------

JOBS = "jobs"


def jobs_controller(
    settings: JobSettings, template: Template, *, written: Callable[[Obj, Obj], None] | None = None
) -> Controller[Observed]:
    """Returns the controller of FournosJobs of a namespace.  `written` is called after each status write."""
    return Controller(
        name=JOBS,
        watches=watches(settings),
        observe=Observer(settings),
        decide=partial(decide, settings=settings, template=template),
        primary=lambda observed: observed.job,
        owns_status=lambda primary: not managed_elsewhere(primary.get("spec") or {}),
        written=written,
    )


# --- the declaration -----------------------------------------------------------------------------------

log = logging.getLogger(__name__)

OPERATOR_NAMESPACE: Final = "fournos-operator"
"""The operator's own namespace in deploy/."""
_SERVICE: Final = Service(OPERATOR_NAMESPACE, "fournos-webhooks")


def start(settings: JobSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    template = load_template(settings.resolve_job_template, roots=template_roots())
    if template.error:
        log.error("the resolve Job template '%s' %s: jobs wait", template.path, template.error)
    counted = JobMetrics(metrics, clock)
    return Running(
        [jobs_controller(settings, template, written=counted.written), orphans_controller(settings)],
        started=lambda manager: counted.attach(manager.caches(JOBS)),
        refresh=lambda manager: counted.report(),
    )


PART = Part(
    name=JOBS,
    title="The operator (`fournos run`)",
    settings=JobSettings,
    start=start,
    lease=LEASE,
    required=(FOURNOS, KUEUE, TEKTON),
    collect_interval=lambda settings: settings.gc_interval_sec,
    webhooks=job_webhooks,
    webhook_manifest=WebhookManifest(
        "deploy/job-webhooks/webhooks.yaml", _SERVICE, lambda: JobSettings(namespace="fournos")
    ),
    kinds=((DEFINITION, RULES),),
)
