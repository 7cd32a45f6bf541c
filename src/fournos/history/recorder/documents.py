"""The documents of an object: JSON values of what it was, did and ran with.  Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Obj, uid_of
from fournos.history.compare.differences import without_own_name
from fournos.history.fingerprint import Fingerprint
from fournos.history.recorder.observe import ObservedObject
from fournos.history.records import Document
from fournos.history.results.read import ResultFile, ResultProblem
from fournos.history.results.tekton import tekton_results
from fournos.insight.children import task_of, tasks
from fournos.insight.values import name_of, spec_of, status_of
from fournos.systems.jobs.names import RESULT_NAME
from fournos.systems.jobs.own_job import believed

_REVISIONS: Final = frozenset(
    {"sha", "commit", "revision", "gitSha", "gitCommit", "engineSha", "version", "driver"}
)
"""Keys of `status.engineStatus`, and ends of annotations, by which an engine reports what it ran."""
_MOST_PROBLEMS: Final = 50
_OWN: Final = frozenset({"archivedAt", "suspectedAt"})
_STORED_APART: Final = frozenset({"results"})
_BOOKKEEPING: Final = frozenset({"managedFields", "finalizers", "resourceVersion"})


def documents_of(
    observed: ObservedObject, what: Fingerprint | None, problems: Iterable[ResultProblem] = ()
) -> dict[Document, Any]:
    """Returns the documents of an object.

    `what` is the fingerprint of a FournosJob; `problems` are those of the results that its run returned.

    One whose source is gone is left out, such as the quota of an ended job: the stored one stays.
    """
    documents: dict[Document, Any] = {
        Document.OBJECT: _document(observed.obj),
        Document.TASKS: _tasks(observed),
        Document.EVENTS: _events(observed),
        Document.QUOTA: quota_of(observed),
        Document.PROVENANCE: _provenance(observed, what) if what is not None else None,
        Document.PROBLEMS: [f"{RESULT_NAME}: {one}" for one in islice(problems, _MOST_PROBLEMS)],
    }
    return {name: value for name, value in documents.items() if value}


def results_of(observed: ObservedObject) -> ResultFile:
    """Checks the results that the last run of an ended object returned.

    An object that is itself a run, or that ran on a worker, has them in its own status.  Those of a TaskRun
    that somebody else has made do not count, nor do those of a PipelineRun that lists such a one.
    """
    run = observed.children.run(observed.obj) if observed.resource == FOURNOS_JOB else None
    if run is None:
        return tekton_results(observed.obj)
    tasks, problem = believed(run, observed.children.task_runs)
    if not problem:
        return tekton_results(run, tasks)
    counted, every = tekton_results(None, tasks), tekton_results(run, observed.children.task_runs)
    if every.tests == counted.tests:
        return counted
    text = f"results of PipelineRun {name_of(run)} do not count: {problem}"
    return replace(counted, problems=(*counted.problems, ResultProblem("", text)))


def _document(obj: Obj) -> Obj:
    """Returns the object without bookkeeping.

    That is managedFields, finalizers, the version, and what the recorder itself writes: a change of these
    alone is not worth another record.  Results of a FournosJob are stored as results.
    """
    left_out = _OWN | (_STORED_APART if obj.get("kind") == FOURNOS_JOB.kind else frozenset())
    status = obj.get("status") or {}
    meta = {name: value for name, value in obj["metadata"].items() if name not in _BOOKKEEPING}
    return {**obj, "metadata": meta, "status": {k: v for k, v in status.items() if k not in left_out}}


def _tasks(observed: ObservedObject) -> list[dict[str, Any]]:
    """Returns the tasks of each run that exists, by attempt."""
    attempts = {
        str(one.get("pipelineRun")): one.get("number")
        for one in status_of(observed.obj).get("attempts") or ()
    }
    return [
        {
            "attempt": attempts.get(name_of(run)),
            "run": name_of(run),
            "tasks": [
                {
                    "name": task.name,
                    "state": task.state,
                    "started": task.started,
                    "finished": task.finished,
                    "message": task.message,
                    "pod": task.pod,
                    "final": task.final,
                }
                for task in tasks(run, observed.children.task_runs)
            ],
        }
        for run in observed.children.runs
    ]


def _events(observed: ObservedObject) -> list[dict[str, Any]]:
    """Returns the Events about the object and its runs, the oldest first."""
    events = [{**event["event"], "uid": uid_of(event)} for event in observed.events]
    return sorted(events, key=lambda one: (one["at"], one["uid"]))


def quota_of(observed: ObservedObject) -> Mapping[str, Any]:
    """Returns the quota that the Workload holds, else what it was last seen to hold."""
    held = _quota(observed.workload) if observed.workload is not None else {}
    return held or (observed.stored.quota if observed.stored else {})


def _quota(workload: Obj) -> dict[str, Any]:
    admission = status_of(workload).get("admission") or {}
    sets = [
        {
            "name": assignment.get("name"),
            "flavors": assignment.get("flavors") or {},
            "resources": assignment.get("resourceUsage") or {},
            "count": assignment.get("count"),
        }
        for assignment in admission.get("podSetAssignments") or ()
    ]
    return {"clusterQueue": admission.get("clusterQueue"), "podSets": sets} if sets else {}


def flavors_of(workload: Obj) -> frozenset[str]:
    sets = (status_of(workload).get("admission") or {}).get("podSetAssignments") or ()
    return frozenset(str(flavor) for one in sets for flavor in (one.get("flavors") or {}).values())


def _provenance(observed: ObservedObject, what: Fingerprint) -> dict[str, Any]:
    obj = observed.obj
    run = observed.children.run(obj)
    status = status_of(run) if run is not None else {}
    provenance = {
        "fingerprint": what.as_data(),
        "pipeline": spec_of(run).get("pipelineRef") if run is not None else None,
        "pipelineSpec": status.get("pipelineSpec"),
        "source": (status.get("provenance") or {}).get("refSource"),
        "tasks": tasks_of(name_of(obj), _believed(observed)),
        "images": _images(observed.children.task_runs, observed.children.pods),
        "nodes": _nodes(observed.children.pods),
        "target": _target(observed.target),
        "resolveImage": (status_of(obj).get("resolved") or {}).get("resolveImage"),
        "engine": _engine(obj),
    }
    return {name: value for name, value in provenance.items() if value}


def _believed(observed: ObservedObject) -> list[Obj]:
    """Returns the TaskRuns of the last attempt, only those that Tekton has made for it."""
    run = observed.children.run(observed.obj)
    return believed(run, observed.children.task_runs)[0] if run is not None else []


def _images(task_runs: Iterable[Obj], pods: Iterable[Obj]) -> dict[str, dict[str, str]]:
    """Returns the digests of the images that ran: task/container → image and imageID.

    The status of a pod names the image; the TaskRun keeps the digests of its steps when the pod is gone.
    """
    images: dict[str, dict[str, str]] = {}
    for task_run in task_runs:
        task = task_of(task_run)
        for step in status_of(task_run).get("steps") or ():
            if step.get("imageID"):
                name = str(step.get("container") or f"step-{step.get('name')}")
                images[f"{task}/{name}"] = {"imageID": str(step["imageID"])}
    for pod in pods:
        for container in status_of(pod).get("containerStatuses") or ():
            if container.get("imageID"):
                about = {"image": str(container.get("image") or ""), "imageID": str(container["imageID"])}
                images[f"{_maker(pod)}/{container.get('name')}"] = about
    return images


def _maker(pod: Obj) -> str:
    """Returns the task of a pod, and "resolve" for the pod of a resolve Job."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return "resolve" if any(one.get("kind") == "Job" for one in owners) else task_of(pod)


def _nodes(pods: Iterable[Obj]) -> dict[str, str]:
    """Returns the node of each task's pod."""
    return {_maker(pod): str(spec_of(pod)["nodeName"]) for pod in pods if spec_of(pod).get("nodeName")}


def _target(cluster: Obj | None) -> dict[str, str]:
    """Returns the versions of a FournosCluster, as far as Hearth knows them; a ResourceFlavor tells none."""
    status = status_of(cluster or {})
    versions = {
        "kubernetes": str((status.get("connection") or {}).get("version") or ""),
        "driver": ", ".join((status.get("hardware") or {}).get("drivers") or ()),
    }
    return {name: version for name, version in versions.items() if version}


def _engine(obj: Obj) -> dict[str, Any]:
    """Returns what the execution engine reports of its own version, by status and by annotation."""
    reported = status_of(obj).get("engineStatus")
    own = reported if isinstance(reported, Mapping) else {}
    noted = obj.get("metadata", {}).get("annotations") or {}
    return {
        **{name: value for name, value in noted.items() if name.rpartition("/")[2] in _REVISIONS},
        **{name: value for name, value in own.items() if name in _REVISIONS},
    }


MAX_TEXT: Final = 128 * 1024
"""Characters of the steps of all tasks; of a task beyond them there is the digest alone."""
MAX_VALUE: Final = 2_000
"""Characters of a parameter or of a result."""


def tasks_of(job: str, task_runs: Iterable[Obj]) -> dict[str, dict[str, Any]]:
    """Returns what the tasks of the job `job` were, by their names.

    ConfigMaps and Secrets are in it as Tekton has them: by name, never by content.
    """
    tasks: dict[str, dict[str, Any]] = {}
    left = MAX_TEXT
    for task_run in task_runs:
        resolved = status_of(task_run).get("taskSpec")
        if not resolved:
            continue
        text = json.dumps(resolved, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        # As of a text of several lines: the digest of the same steps is the same in every run.
        digest = hashlib.sha256(without_own_name(f"{text}\n", job).encode("utf-8", "replace")).hexdigest()
        task: dict[str, Any] = {"digest": f"sha256:{digest}"}
        if len(text) <= left:
            left -= len(text)
            task["taskSpec"] = resolved
        task["params"] = _values(spec_of(task_run).get("params"))
        # Those of the benchmark are stored as results.
        task["results"] = _values(status_of(task_run).get("results"), without=RESULT_NAME)
        tasks[task_of(task_run)] = {name: value for name, value in task.items() if value}
    return tasks


def _values(named: Iterable[Mapping[str, Any]] | None, without: str = "") -> dict[str, str]:
    return {
        str(one.get("name")): _text(one.get("value"))[:MAX_VALUE]
        for one in named or ()
        if one.get("name") != without
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
