"""The controllers of wrapped kinds and the kubelet, played on the in-memory API server.

They do what the real ones do to the objects that the AppWrapper system reads, one move a round, and stop
when there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fournos.api.kinds import APPWRAPPER
from fournos.engine.api.conditions import Condition, is_true
from fournos.engine.kube.resource import DEPLOYMENT, JOB, POD, Key, is_terminating, key_of, uid_of
from fournos.engine.queueing.kinds import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Facts,
    LiveGet,
    NeededFacts,
    Present,
    User,
    attempt,
)
from fournos.engine.runtime.webhook.review import Request, Review
from fournos.systems.appwrappers.admission import review
from fournos.systems.appwrappers.names import LABEL
from fournos.systems.appwrappers.part import default
from fournos.systems.appwrappers.settings import AppWrapperSettings
from tests.world.server import Server
from tests.world.status import set_conditions

NS = "team"
OWN = AppWrapperSettings(workloads="own")
KUEUE = AppWrapperSettings(workloads="kueue")


@dataclass
class Controllers:
    """The Job and Deployment controllers and the kubelet."""

    fails: set[str] = field(default_factory=set)
    """Pods (by name) whose first life ends in failure."""
    always_fails: set[str] = field(default_factory=set)
    endless: set[str] = field(default_factory=set)
    """Pods that run until they are deleted."""
    stuck: set[str] = field(default_factory=set)
    """Pods that are never scheduled."""

    def __call__(self, server: Server) -> None:
        for kind in (JOB, DEPLOYMENT):
            for owner in server.list(kind):
                if not is_terminating(owner) and self._made_pods(server, kind, owner):
                    return
        for pod in server.list(POD):
            if self._lived(server, pod):
                return
        for owner in server.list(JOB):
            if self._counted_job(server, owner):
                return
        for owner in server.list(DEPLOYMENT):
            pods = _of(server, owner)
            ready = sum((one.get("status") or {}).get("phase") == "Running" for one in pods)
            if (owner.get("status") or {}).get("availableReplicas", 0) != ready:
                status = {"availableReplicas": ready, "observedGeneration": owner["metadata"]["generation"]}
                server.patch(DEPLOYMENT, key_of(owner), {"status": status}, subresource="status")
                return

    def _made_pods(self, server: Server, kind: Any, owner: Any) -> bool:
        if is_true(owner, "Complete") or is_true(owner, "Failed"):
            return False
        spec = owner["spec"]
        wanted = (
            spec.get("completions", spec.get("parallelism", 1)) if kind == JOB else spec.get("replicas", 1)
        )
        at_once = min(spec.get("parallelism", wanted), wanted)
        pods = _of(server, owner)
        going = sum((one.get("status") or {}).get("phase") not in ("Succeeded", "Failed") for one in pods)
        over = sum((one.get("status") or {}).get("phase") == "Succeeded" for one in pods)
        if going >= at_once or going + over >= wanted:
            return False
        template = spec["template"]
        meta = {
            **template["metadata"],
            "name": f"{owner['metadata']['name']}-{len(pods)}",
            "namespace": NS,
            "ownerReferences": [{"kind": kind.kind, "name": "x", "uid": uid_of(owner), "controller": True}],
        }
        server.create(POD, {"metadata": meta, "spec": template["spec"]})
        return True

    def _lived(self, server: Server, pod: Any) -> bool:
        name, phase = pod["metadata"]["name"], (pod.get("status") or {}).get("phase")
        if phase is None and name not in self.stuck:
            ready = Condition("Ready", "True", "", "")
            set_conditions(server, POD, pod, ready, phase="Running")
            return True
        if phase != "Running" or name in self.endless:
            return False
        failed = name in self.fails or name in self.always_fails
        self.fails.discard(name)
        ended = [{"state": {"terminated": {"exitCode": 3 if failed else 0}}}]
        body = {"status": {"phase": "Failed" if failed else "Succeeded", "containerStatuses": ended}}
        server.patch(POD, key_of(pod), body, subresource="status")
        return True

    def _counted_job(self, server: Server, job: Any) -> bool:
        if is_true(job, "Complete"):
            return False
        pods = _of(server, job)
        phases = [(one.get("status") or {}).get("phase") for one in pods]
        succeeded, ready = phases.count("Succeeded"), phases.count("Running")
        spec, status = job["spec"], job.get("status") or {}
        if succeeded >= spec.get("completions", spec.get("parallelism", 1)):
            set_conditions(
                server, JOB, job, Condition("Complete", "True", "", ""), succeeded=succeeded, ready=0
            )
            return True
        if (status.get("succeeded", 0), status.get("ready", 0)) != (succeeded, ready):
            set_conditions(server, JOB, job, succeeded=succeeded, ready=ready)
            return True
        return False


def _of(server: Server, owner: Any) -> list[Any]:
    uid = uid_of(owner)
    return [
        p for p in server.list(POD) if (p["metadata"].get("ownerReferences") or [{}])[0].get("uid") == uid
    ]


# --- what users write --------------------------------------------------------------------------------

CONTAINER = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}


def pod_template(name: str | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {"metadata": {}, "spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
    if name:
        body |= {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
    return body


def job_template(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {**spec, "template": pod_template()},
    }


def deployment_template(name: str, replicas: int = 1) -> dict[str, Any]:
    spec = {"replicas": replicas, "template": pod_template()}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"}, "spec": {"ports": []}}


def wrapper(
    *templates: dict[str, Any], name: str = "aw", queue: str | None = "user-queue", **annotations: str
) -> dict[str, Any]:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return {
        "apiVersion": APPWRAPPER.api_version,
        "kind": APPWRAPPER.kind,
        "metadata": {
            "name": name,
            "namespace": NS,
            "labels": labels,
            "annotations": {f"workload.codeflare.dev.appwrapper/{k}": v for k, v in annotations.items()},
        },
        "spec": {"suspend": queue is not None, "components": [{"template": one} for one in templates]},
    }


def submit(server: Server, *templates: dict[str, Any], **kwargs: Any) -> None:
    if server.find(RESOURCE_FLAVOR, Key("", "default")) is None:
        spec = {"nodeLabels": {"pool": "a"}, "tolerations": [{"key": "t", "operator": "Exists"}]}
        server.create(RESOURCE_FLAVOR, {"metadata": {"name": "default"}, "spec": spec})
    server.create(APPWRAPPER, wrapper(*templates, **kwargs))


def edit(**spec: Any) -> Callable[[Server], None]:
    return lambda server: server.patch(APPWRAPPER, Key(NS, "aw"), {"spec": spec}) and None


def get(server: Server, name: str = "aw") -> Any:
    return server.get(APPWRAPPER, Key(NS, name))


def phase(server: Server, name: str = "aw") -> str:
    return str((get(server, name).get("status") or {}).get("phase") or "")


def pods_of(server: Server, name: str = "aw") -> list[Any]:
    return server.list(POD, selector=f"{LABEL}={name}")


# --- reviews -------------------------------------------------------------------------------------------
# Requests to the webhooks of AppWrappers, and what they return.

ALICE = User("alice", "u-1", ("dev",))


def refusals(new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [one.rule for one in reviewed(request_for(new, old)).problems]


def reviewed(request: Request, settings: AppWrapperSettings = KUEUE) -> Review:
    """The review of a user who may create everything."""
    found = attempt(review, request, Facts(), settings=settings)
    if isinstance(found, NeededFacts):
        facts = Facts({question: Present(True) for question in found.questions})
        found = attempt(review, request, facts, settings=settings)
    assert isinstance(found, Review)
    return found


def request_for(new: dict[str, Any], old: dict[str, Any] | None = None) -> Request:
    name = new["metadata"].get("name", "")
    return Request("UPDATE" if old else "CREATE", ALICE, Key(NS, name), new, old)


LOCAL: Answer = Present({"spec": {"clusterQueue": "cq"}})


def patch(
    new: dict[str, Any],
    *,
    queue: Answer = Absent(),  # noqa: B008
    check: str = "",
    **changes: Any,
) -> Any:
    """`queue` is the answer for the queue `default`; `check` the controller of the ClusterQueue's check."""
    checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]}} if check else {}
    answers: dict[Any, Answer] = {
        **{LiveGet(LOCAL_QUEUE, Key(NS, name)): LOCAL for name in ("user-queue", "std")},
        LiveGet(LOCAL_QUEUE, Key(NS, "default")): queue,
        LiveGet(CLUSTER_QUEUE, Key("", "cq")): Present({"spec": checks}),
        LiveGet(ADMISSION_CHECK, Key("", "check")): Present({"spec": {"controllerName": check}}),
    }
    found = default(request_for(new), Facts(answers), settings=AppWrapperSettings(**changes))
    assert isinstance(found, Review) and not found.problems
    return found.patch
