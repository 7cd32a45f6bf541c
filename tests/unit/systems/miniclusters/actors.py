"""The Job controller and the kubelet, played on the in-memory API server for MiniClusters.

They do what the real ones do to the objects that the MiniCluster system reads, one move a round, and stop
when there is nothing to do.  A test decides here how the brokers in the pods end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from fournos.api.kinds import MINICLUSTER
from fournos.engine.api.conditions import Condition, is_true
from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import (
    CONFIG_MAP,
    JOB,
    POD,
    SECRET,
    SERVICE,
    Key,
    controller_of,
    is_terminating,
    key_of,
    owner_reference,
    uid_of,
)
from fournos.engine.queueing.kinds import RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.runtime.controller import Controller
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.part import miniclusters_controller
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.miniclusters.start import MakeCertificate, Maker
from fournos.systems.miniclusters.status import Observed
from tests.world.harness import Scenario, run
from tests.world.kueue import Kueue, holding
from tests.world.server import Server
from tests.world.status import set_conditions

NS = "hpc"
SETTINGS = MiniClusterSettings()
QUEUE = {"kueue.x-k8s.io/queue-name": "lq"}


def controller(settings: MiniClusterSettings = SETTINGS) -> Controller[Observed]:
    """The system with a certificate that is the same in every run."""
    found = miniclusters_controller(settings)
    maker = Maker(settings, random=lambda length: b"\x07" * length)
    return replace(found, executors={MakeCertificate: maker})


@dataclass
class Cluster:
    """The Job controller and the kubelet."""

    codes: dict[str, int] = field(default_factory=dict)
    """MiniCluster -> what its lead broker ends with; others run until they are taken down."""
    stuck: set[str] = field(default_factory=set)
    """Pods that are never scheduled."""
    beside: bool = False
    """A container beside Flux that does not end: pods stay Running."""
    late: bool = False
    """The kubelet has not yet said of a pod that it is over, only of its container."""

    def __call__(self, server: Server) -> None:
        for job in server.list(JOB, selector=names.MINICLUSTER_LABEL):
            if self._kept_up(server, job) or self._ended(server, job):
                return
        for pod in server.list(POD):
            if self._lived(server, pod):
                return

    def _kept_up(self, server: Server, job: Any) -> bool:
        if is_terminating(job) or is_true(job, "Complete") or is_true(job, "Failed"):
            return False
        pods = {pod["metadata"]["labels"][names.COMPLETION_INDEX_LABEL]: pod for pod in _of(server, job)}
        if (pods.get("0", {}).get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return False
        wanted = 0 if job["spec"].get("suspend") else job["spec"]["parallelism"]
        for index, pod in pods.items():
            if int(index) >= wanted:
                server.delete(POD, key_of(pod))
                return True
        over = [
            one.split("-") for one in (job.get("status") or {}).get("completedIndexes", "").split(",") if one
        ]
        for number in range(wanted):
            if str(number) not in pods and not any(int(one[0]) <= number <= int(one[-1]) for one in over):
                template = job["spec"]["template"]
                labels = {**template["metadata"]["labels"], names.COMPLETION_INDEX_LABEL: str(number)}
                name = f"{job['metadata']['name']}-{number}"
                owners = [owner_reference(JOB, job)]
                meta = {"namespace": NS, "name": name, "labels": labels, "ownerReferences": owners}
                server.create(POD, {"metadata": meta, "spec": template["spec"]})
                return True
        return False

    def _ended(self, server: Server, job: Any) -> bool:
        """The success policy and the failure policy."""
        if is_true(job, "Complete") or is_true(job, "Failed"):
            return False
        lead = next((p for p in _of(server, job) if p["metadata"]["labels"].get(INDEX) == "0"), None)
        phase = ((lead or {}).get("status") or {}).get("phase")
        if phase not in ("Succeeded", "Failed"):
            return False
        for pod in _of(server, job):
            if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                server.delete(POD, key_of(pod))
                return True
        type_, reason = (
            ("Complete", "SuccessPolicy") if phase == "Succeeded" else ("Failed", "PodFailurePolicy")
        )
        set_conditions(server, JOB, job, Condition(type_, "True", reason, "because"))
        return True

    def _lived(self, server: Server, pod: Any) -> bool:
        phase, name = (pod.get("status") or {}).get("phase"), pod["metadata"]["name"]
        if name in self.stuck or phase in ("Succeeded", "Failed"):
            return False
        runner = pod["metadata"]["labels"][names.MINICLUSTER_LABEL]
        if phase is None:
            started = {"running": {"startedAt": server.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")}}
            status = {
                "phase": "Running",
                "containerStatuses": [{"name": runner, "state": started}],
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            server.patch(POD, key_of(pod), {"status": status}, subresource="status")
            return True
        state = pod["status"]["containerStatuses"][0]["state"]
        lead = pod["metadata"]["labels"].get(INDEX) == "0"
        everyone = all(
            (one.get("status") or {}).get("phase") for one in server.list(POD) if _job_of(one) == _job_of(pod)
        )
        minicluster = server.find(MINICLUSTER, Key(NS, runner)) or {}
        seen = (minicluster.get("status") or {}).get("phase") == "Ready"
        if lead and runner in self.codes and everyone and seen and "running" in state:
            code = self.codes[runner]
            at = server.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            ended = {"terminated": {"exitCode": code, "message": str(code), "finishedAt": at}}
            new = "Running" if self.beside or self.late else ("Failed" if code else "Succeeded")
            others = [{"name": "beside", "state": {"running": {}}}] if self.beside else []
            status = {
                "phase": new,
                "containerStatuses": [{"name": runner, "state": ended}, *others],
                "conditions": [{"type": "Ready", "status": "False"}],
            }
            server.patch(POD, key_of(pod), {"status": status}, subresource="status")
            return True
        return False


INDEX = names.COMPLETION_INDEX_LABEL


def _job_of(pod: Any) -> str:
    return str((controller_of(pod) or {}).get("uid"))


def _of(server: Server, job: Any) -> list[Any]:
    return [pod for pod in server.list(POD) if _job_of(pod) == uid_of(job)]


def flavors(server: Server) -> None:
    server.create(
        RESOURCE_FLAVOR,
        {"metadata": {"name": "default"}, "spec": {"nodeLabels": {"pool": "hpc"}}},
    )


def manifest(name: str = "flux", *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {
        "image": "app:1",
        "command": "hostname",
        "resources": {"requests": {"cpu": "1"}},
        **spec.pop("container", {}),
    }
    return {
        "apiVersion": MINICLUSTER.api_version,
        "kind": MINICLUSTER.kind,
        "metadata": {"namespace": NS, "name": name, "labels": labels or {}},
        "spec": {"size": 2, "containers": [container], **spec},
    }


def submit(server: Server, name: str = "flux", **spec: Any) -> None:
    server.create(MINICLUSTER, manifest(name, **spec))


def get(server: Server, name: str = "flux") -> dict[str, Any]:
    return server.get(MINICLUSTER, Key(NS, name))


def change(server: Server, name: str = "flux", **spec: Any) -> None:
    server.patch(MINICLUSTER, Key(NS, name), {"spec": spec})


# --- statuses ------------------------------------------------------------------------------------------
# Statuses of pods and their containers, written as the kubelet and the Job controller would.


def container(name: str, code: int | None = None, *, ready: bool = True, message: str = "") -> dict[str, Any]:
    """The status of a container that runs, or that has ended with this code."""
    if code is None:
        return {"name": name, "ready": ready, "state": {"running": {}}}
    ended = {"exitCode": code, "message": message, "finishedAt": "2026-01-01T00:00:00Z"}
    return {"name": name, "ready": False, "state": {"terminated": ended}}


def status(phase: str, *containers: dict[str, Any], ready: bool = False) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {"phase": phase, "containerStatuses": list(containers), "conditions": conditions}


def set_status(index: int, found: dict[str, Any]) -> Any:
    def act(server: Server) -> None:
        server.patch(POD, Key(NS, f"flux-{index}"), {"status": found}, subresource="status")

    return act


def completed(server: Server, *, at: datetime, message: str = "") -> None:
    """Worker 1 has ended well at this time, and is not run again."""
    (job,) = server.list(JOB)
    server.patch(JOB, key_of(job), {"status": {"completedIndexes": "1"}}, subresource="status")
    ended = container("flux", 0, message=message)
    ended["state"]["terminated"]["finishedAt"] = format_time(at)
    set_status(1, status("Succeeded", ended))(server)


# --- stories -------------------------------------------------------------------------------------------
# Lives of MiniClusters in the in-memory world, and what must always hold.

Action = Callable[[Server], None]


def alive(server: Server) -> list[dict[str, Any]]:
    over = ("Succeeded", "Failed")
    return [pod for pod in server.list(POD) if (pod.get("status") or {}).get("phase") not in over]


def quota_covers_every_live_pod(server: Server) -> None:
    for one in server.list(MINICLUSTER):
        name = one["metadata"]["name"]
        own = [pod for pod in alive(server) if pod["metadata"]["labels"][names.MINICLUSTER_LABEL] == name]
        if not own or not (one["metadata"].get("labels") or {}):
            continue
        held = holding(server, name)
        assert held, f"{name} runs without quota"
        given = {
            one["name"]: one["count"] for one in (held[0].get("status") or {}).get("reclaimablePods") or ()
        }
        count = held[0]["spec"]["podSets"][0]["count"] - given.get("main", 0)
        main = [pod for pod in own if names.COMPLETION_INDEX_LABEL in pod["metadata"]["labels"]]
        assert len(main) <= count, f"{name} has more pods than quota"


def one_certificate_a_job(server: Server) -> None:
    """Brokers with another certificate cannot join: it never changes under a Job."""
    for job in server.list(JOB):
        secret = server.find(SECRET, Key(NS, names.curve(job["metadata"]["name"])))
        if secret is not None:
            kept = job["metadata"].setdefault("uid", uid_of(job))
            assert _SEEN.setdefault(kept, uid_of(secret)) == uid_of(secret)


_SEEN: dict[str, str] = {}


def finished_means_over(server: Server) -> None:
    for one in server.list(MINICLUSTER):
        if (one.get("status") or {}).get("phase") == "Finished":
            name = one["metadata"]["name"]
            own = [p for p in alive(server) if p["metadata"]["labels"][names.MINICLUSTER_LABEL] == name]
            assert not own


def story(
    *script: Action,
    setup: Action = submit,
    world: Callable[[], Cluster] = Cluster,
    kueue: Callable[[], Kueue] = Kueue,
    settings: MiniClusterSettings = SETTINGS,
    **kwargs: Any,
) -> Scenario:
    def begin(server: Server) -> None:
        _SEEN.clear()
        flavors(server)
        setup(server)

    return Scenario(
        controller=controller(settings),
        setup=begin,
        cast=(kueue, world),
        script=script,
        invariants=(quota_covers_every_live_pod, one_certificate_a_job, finished_means_over),
        end=summary,
        lags=(1, 2, 3, 5, 8, 13, 21, 34),
        **kwargs,
    )


def summary(server: Server) -> Any:
    """What all runs must agree on."""
    return {
        "status": {
            one["metadata"]["name"]: {
                **{
                    key: value
                    for key, value in (one.get("status") or {}).items()
                    if key in ("phase", "size", "ready", "exitCode", "maximumSize", "message")
                },
                "conditions": [
                    (found["type"], found["status"], found["reason"])
                    for found in (one.get("status") or {}).get("conditions") or ()
                ],
                "suspend": one["spec"].get("suspend", False),
                "finalizers": one["metadata"].get("finalizers") or [],
            }
            for one in server.list(MINICLUSTER)
        },
        "objects": sorted(
            (str(resource), obj["metadata"]["name"])
            for resource, obj in server.everything()
            if resource != MINICLUSTER
        ),
        "jobs": [job["spec"]["parallelism"] for job in server.list(JOB)],
        "workloads": [
            (
                is_true(one, "QuotaReserved"),
                is_true(one, "Finished"),
                (one.get("status") or {}).get("reclaimablePods"),
            )
            for one in server.list(WORKLOAD)
        ],
    }


def anything(server: Server) -> None:
    """Where users' acts meet something else when an event is lost, something else comes of them."""


def ends_with(code: int, **more: Any) -> Callable[[], Cluster]:
    return lambda: Cluster(codes={"flux": code}, **more)


def with_queue(server: Server) -> None:
    submit(server, labels=QUEUE, maxSize=4)


def delete(resource: Any, name: str) -> Action:
    def act(server: Server) -> None:
        if server.find(resource, Key(NS, name)):
            server.delete(resource, Key(NS, name))

    return act


def resized(size: int) -> Action:
    return lambda server: change(server, size=size)


def suspend(value: bool) -> Action:
    return lambda server: change(server, suspend=value)


STORIES: dict[str, Scenario] = {
    "hello": story(world=ends_with(0)),
    "failure": story(world=ends_with(3)),
    "sidecar": story(world=ends_with(0, beside=True)),
    "cleanup": story(setup=lambda server: submit(server, cleanup=True), world=ends_with(0)),
    "resize": story(resized(4), resized(1), setup=lambda server: submit(server, maxSize=4)),
    "services": story(
        setup=lambda server: submit(server, services=[{"name": "db", "image": "db:1"}]), world=ends_with(0)
    ),
    "suspended": story(suspend(True), suspend(False)),
    "recreated": story(
        delete(JOB, "flux"),
        delete(SERVICE, "flux-service"),
        delete(CONFIG_MAP, "flux-entrypoint"),
        delete(SECRET, "flux-curve"),
        delete(POD, "flux-0"),
        end_unseen=anything,
    ),
    "queued": story(setup=with_queue, world=ends_with(0)),
    "evicted": story(setup=with_queue, kueue=lambda: Kueue(evict={"flux": "Preempted"})),
    "shrunk": story(resized(4), resized(1), resized(3), setup=with_queue, end_unseen=anything),
    "deleted": story(delete(MINICLUSTER, "flux"), setup=with_queue),
    "waiting": story(setup=with_queue, kueue=lambda: Kueue(slots=0)),
}


async def told(name: str) -> Server:
    return (await run(STORIES[name])).server
