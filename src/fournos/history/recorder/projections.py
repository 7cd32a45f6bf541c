"""What the caches of the recorder keep of each kind, and the indexes by which it is found."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson

from fournos.api.phase import HOLDING
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.job import PRIORITY_BOOST
from fournos.engine.runtime.controller import metadata, pick
from fournos.history.recorder.packed import packing
from fournos.insight.values import spec_of, status_of
from fournos.systems.jobs.names import JOB_NAME_LABEL

# --- indexes --------------------------------------------------------------------------------------------


def own_name(obj: Obj) -> Iterable[str]:
    return (str(obj["metadata"]["name"]),)


def held_cluster(job: Obj) -> Iterable[str]:
    status = status_of(job)
    return (str(status["cluster"]),) if status.get("cluster") and status.get("phase") in HOLDING else ()


UNRECORDED: Final = ""
"""The value of `regarded` for Events about objects of other kinds."""


def about_value(kind: str, uid: str) -> str:
    """Returns the value of `regarded` for the Events about this object."""
    return f"{kind}/{uid}"


def regarded(event: Obj) -> Iterable[str]:
    return (about_value(event["kind"], event["about"]) if "about" in event else UNRECORDED,)


def waits_in(workload: Obj) -> Iterable[str]:
    """The LocalQueue of a Workload that has no quota."""
    held = any(
        one.get("type") in ("QuotaReserved", "Finished") and one.get("status") == "True"
        for one in status_of(workload).get("conditions") or ()
    )
    name = spec_of(workload).get("queueName")
    return () if held or not name else (str(Key(workload["metadata"]["namespace"], str(name))),)


# --- projections ----------------------------------------------------------------------------------------

_pack_plain = packing()
_pack_workload = packing(spec=("queueName", "active", "priority"))


def project_workload(workload: Obj) -> Obj:
    references = workload["metadata"].get("ownerReferences") or ()
    states = [
        {"type": condition["type"], "status": condition["status"]}
        for condition in status_of(workload).get("conditions") or ()
        if condition.get("type") in ("QuotaReserved", "Finished")
    ]
    body = _pack_workload(workload)
    boost = pick(workload["metadata"].get("annotations"), (PRIORITY_BOOST,))
    return {
        **body,
        **({"metadata": {**body["metadata"], "annotations": boost}} if boost else {}),
        "status": {"conditions": states},
        "ownedBy": tuple(
            (str(reference.get("kind")), str(reference.get("name"))) for reference in references
        ),
    }


def project_dependent(obj: Obj) -> Obj:
    job = (obj["metadata"].get("labels") or {}).get(JOB_NAME_LABEL)
    return {**_pack_plain(obj), "job": job}


def project_pod(pod: Obj) -> Obj:
    """Keeps what is read of a pod, with the names of its containers in their order."""
    body, spec = project_short_lived(pod), spec_of(pod)
    names = [{"name": one["name"]} for one in spec.get("containers") or ()]
    return {**body, "spec": {**body["spec"], "containers": names}}


def project_task_run(task_run: Obj) -> Obj:
    """Keeps what is read of a TaskRun, with what tells it from one that somebody else has made."""
    return {**project_short_lived(task_run), "spec": task_run.get("spec") or {}}


def project_short_lived(obj: Obj) -> Obj:
    """Keeps what is read of a pod; TaskRuns and pods change often and live only as long as the run."""
    return {
        "metadata": metadata(obj),
        "spec": pick(obj.get("spec"), ("nodeName",)),
        "status": obj.get("status") or {},
        "job": (obj["metadata"].get("labels") or {}).get(JOB_NAME_LABEL),
    }


def project_event(event: Obj) -> Obj:
    """Keeps what the history shows of an Event, and of one about another kind only the name.

    It is kept as JSON text, which takes a quarter less: Events are many, and are read in few passes.
    """
    about = event.get("regarding") or event.get("involvedObject") or {}
    body: dict[str, Any] = {
        "metadata": pick(event["metadata"], ("namespace", "name", "uid", "resourceVersion"))
    }
    kind = _RECORDED_EVENTS.get(str(about.get("kind")))
    if kind is None:
        return body
    series = event.get("series") or {}
    at = series.get("lastObservedTime") or event.get("eventTime") or event.get("deprecatedLastTimestamp")
    body["kind"], body["about"] = kind, str(about.get("uid") or "")
    # As str: orjson shrinks its bytes in place, and the holes make 5 kB of each.
    body["event"] = orjson.dumps(
        {
            "kind": kind,
            "name": about.get("name"),
            "type": event.get("type"),
            "reason": event.get("reason"),
            "note": event.get("note"),
            "count": series.get("count") or event.get("deprecatedCount") or 1,
            "at": str(at or event["metadata"].get("creationTimestamp") or ""),
        }
    ).decode()
    return body


def event_of(projected: Obj) -> dict[str, Any]:
    """Returns what is kept of an Event; empty for one about another kind."""
    return orjson.loads(projected["event"]) if "event" in projected else {}


_RECORDED_EVENTS: Final = {kind: kind for kind in ("FournosJob", "PipelineRun", "AppWrapper", "MiniCluster")}
"""By itself, so that all Events of a kind share one text."""
