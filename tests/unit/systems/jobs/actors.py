"""Kueue, Tekton, the resolver and the kubelet, played on the in-memory API server for tests of the jobs.

They do what the real ones do to the objects that the job system reads, one move a round, and stop when
there is nothing to do.  Real ones are used in tests/integration and tests/e2e.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fournos.api.kinds import FOURNOS_JOB, PIPELINE, PIPELINE_RUN
from fournos.engine.api.conditions import Condition, condition, is_true
from fournos.engine.kube.resource import JOB, POD, SECRET, Key, is_terminating, key_of
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, RESOURCE_FLAVOR, WORKLOAD, WORKLOAD_PRIORITY_CLASS
from fournos.systems.jobs.settings import JobSettings, Template
from tests.world.kueue import ADMITTED
from tests.world.server import Server
from tests.world.status import set_conditions

NS = "bench"
SETTINGS = JobSettings(namespace=NS)
TEMPLATE = Template(
    "resolve.yaml",
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {"template": {"spec": {"containers": [{"name": "resolve"}], "restartPolicy": "Never"}}},
    },
)


@dataclass
class Kueue:
    """Admits one Workload a round by priority while slots last; evicts on demand."""

    slots: dict[str, int] = field(default_factory=lambda: {"cluster-1": 100, "cluster-2": 100})
    evict: list[tuple[str, str]] = field(default_factory=list)
    """(Workload name, reason)"""

    def __call__(self, server: Server) -> None:
        workloads = server.list(WORKLOAD)
        for name, reason in list(self.evict):
            found = server.find(WORKLOAD, Key(NS, name))
            run = server.find(PIPELINE_RUN, Key(NS, name))
            begun = bool((run or {}).get("status")) or bool(found and is_true(found, "PodsReady"))
            if found and is_true(found, "Admitted") and begun:
                set_conditions(server, WORKLOAD, found, Condition("Evicted", "True", reason, "told to"))
                self.evict.remove((name, reason))
                return
        free = dict(self.slots)
        for workload in workloads:
            admission = (workload.get("status") or {}).get("admission")
            if admission:
                free[admission["podSetAssignments"][0]["flavors"]["fournos/cluster-slot"]] -= _slots(workload)
        waiting = [w for w in workloads if not (w.get("status") or {}).get("admission") and _queued(w)]
        for workload in sorted(waiting, key=lambda w: -int(w["spec"].get("priority") or 0)):
            if self._admit(server, workload, free):
                return

    def _admit(self, server: Server, workload: Any, free: dict[str, int]) -> bool:
        pod = workload["spec"]["podSets"][0]["template"]["spec"]
        pinned = (pod.get("nodeSelector") or {}).get("fournos.dev/cluster")
        for cluster in [pinned] if pinned else sorted(free):
            if free.get(cluster, 0) >= _slots(workload):
                flavors = dict.fromkeys(pod["containers"][0]["resources"]["requests"], cluster)
                set_conditions(
                    server,
                    WORKLOAD,
                    workload,
                    *ADMITTED,
                    admission={
                        "clusterQueue": "fournos-queue",
                        "podSetAssignments": [{"name": "launcher", "flavors": flavors}],
                    },
                )
                return True
        message = (
            "couldn't assign flavors to pod set launcher: insufficient unused quota for fournos/cluster-slot"
        )
        if (condition(workload, "QuotaReserved") or {}).get("message") != message:
            set_conditions(
                server, WORKLOAD, workload, Condition("QuotaReserved", "False", "Pending", message)
            )
            return True
        return False


def _slots(workload: Any) -> int:
    container = workload["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
    return int(container["resources"]["requests"]["fournos/cluster-slot"])


def _queued(workload: Any) -> bool:
    requeued = condition(workload, "Requeued")
    evicted_and_held = is_true(workload, "Evicted") and is_true(workload, "QuotaReserved")
    return not evicted_and_held and (requeued or {}).get("status") != "False"


@dataclass
class Resolver:
    """Completes resolve Jobs after writing what the engine would into the spec."""

    writes: dict[str, Any] = field(default_factory=dict)
    fails: bool = False

    def __call__(self, server: Server) -> None:
        for job in server.list(JOB):
            if is_true(job, "Complete") or is_true(job, "Failed"):
                continue
            name = job["metadata"]["labels"]["fournos.dev/job-name"]
            if self.fails:
                text = "Job has reached the specified backoff limit"
                set_conditions(server, JOB, job, Condition("Failed", "True", "BackoffLimitExceeded", text))
                return
            owner = server.find(FOURNOS_JOB, Key(NS, name))
            missing = {k: v for k, v in self.writes.items() if not (owner or {}).get("spec", {}).get(k)}
            if owner and missing:
                server.patch(FOURNOS_JOB, Key(NS, name), {"spec": missing})
            set_conditions(server, JOB, job, Condition("Complete", "True", "", ""))
            return


@dataclass
class Tekton:
    """Starts a PipelineRun, ends it the next round; cancelled ones end cancelled."""

    fails: set[str] = field(default_factory=set)
    endless: set[str] = field(default_factory=set)
    """Runs that end only when cancelled."""
    deaf: set[str] = field(default_factory=set)
    """Runs that do not even end when cancelled."""
    keeps_pods: set[str] = field(default_factory=set)
    """Pods that are not this one's to delete."""
    pods: bool = False
    """Every run has a pod, gone one round after the run has ended."""

    prunes: bool = False
    """A pruner deletes every run as soon as it has ended."""

    def __call__(self, server: Server) -> None:
        for run in server.list(PIPELINE_RUN):
            if self._step(server, run):
                return
        for pod in server.list(POD):
            name = pod["metadata"]["labels"].get("tekton.dev/pipelineRun")
            if name is None or pod["metadata"]["name"] in self.keeps_pods:
                continue
            run = server.find(PIPELINE_RUN, Key(NS, name))
            if run is None or (run.get("status") or {}).get("completionTime"):
                server.delete(POD, key_of(pod))
                return

    def _step(self, server: Server, run: Any) -> bool:
        name, status = run["metadata"]["name"], run.get("status") or {}
        now = server.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        requested = run["spec"].get("status")
        if status.get("completionTime") or is_terminating(run):
            return False
        if not status:
            if self.pods:
                labels = {"tekton.dev/pipelineRun": name}
                meta = {"name": f"{name}-pod", "namespace": NS, "labels": labels}
                server.create(POD, {"metadata": meta})
                server.patch(
                    POD, Key(NS, f"{name}-pod"), {"status": {"phase": "Running"}}, subresource="status"
                )
            shown = Condition("Succeeded", "Unknown", "Running", "Tasks Completed: 0, Incomplete: 1")
            set_conditions(server, PIPELINE_RUN, run, shown, startTime=now)
            return True
        if name in self.deaf:
            return False
        if requested:
            ended = Condition("Succeeded", "False", "Cancelled", f'PipelineRun "{name}" was cancelled')
        elif name in self.endless:
            return False
        elif name in self.fails:
            ended = Condition("Succeeded", "False", "Failed", "Tasks Completed: 1 (Failed: 1)")
        else:
            ended = Condition("Succeeded", "True", "Succeeded", "Tasks Completed: 1 (Failed: 0)")
        set_conditions(server, PIPELINE_RUN, run, ended, completionTime=now)
        if self.prunes:
            server.delete(PIPELINE_RUN, key_of(run))
        return True


def environment(server: Server) -> None:
    """What an administrator has set up: pipeline, two clusters with secrets, queue, priority classes."""
    for name in ("cluster-1", "cluster-2"):
        server.create(RESOURCE_FLAVOR, {"metadata": {"name": name}, "spec": {}})
        meta = {"name": f"kubeconfig-{name}", "namespace": "psap-secrets"}
        server.create(SECRET, {"metadata": meta, "data": {"kubeconfig": "bQ=="}})
    for entry in ("my-creds", "placeholder"):
        labels = {"fournos.dev/vault-entry": "true"}
        meta = {"name": f"vault-{entry}", "namespace": "psap-secrets", "labels": labels}
        server.create(SECRET, {"metadata": meta, "data": {"username": "YQ==", "password": "Yg=="}})
    covered = ["fournos/gpu-a100", "fournos/gpu-h200", "fournos/cluster-slot"]
    queue = {"resourceGroups": [{"coveredResources": covered}]}
    server.create(CLUSTER_QUEUE, {"metadata": {"name": "fournos-queue"}, "spec": queue})
    server.create(WORKLOAD_PRIORITY_CLASS, {"metadata": {"name": "nightly"}, "value": 100})
    annotations = {"fournos.dev/resolve-image": "engine:1"}
    meta = {"name": "fournos-full", "namespace": NS, "annotations": annotations}
    tasks = {"tasks": [{"name": "run"}, {"name": "long", "timeout": "5h"}], "finally": [{"name": "cleanup"}]}
    server.create(PIPELINE, {"metadata": meta, "spec": tasks})


def submit(server: Server, name: str = "job", **spec: Any) -> None:
    """A FournosJob with the API server's defaults, on cluster-1 by default (None removes a field)."""
    whole: dict[str, Any] = {
        "pipeline": "fournos-full",
        "exclusive": True,
        "cluster": "cluster-1",
        "executionEngine": {"forge": {"project": "llmd"}},
        **spec,
    }
    body = {
        "apiVersion": FOURNOS_JOB.api_version,
        "kind": FOURNOS_JOB.kind,
        "metadata": {"name": name, "namespace": NS},
        "spec": {key: value for key, value in whole.items() if value is not None},
    }
    server.create(FOURNOS_JOB, body)


def edit(name: str = "job", **spec: Any) -> Callable[[Server], None]:
    return lambda server: server.patch(FOURNOS_JOB, Key(NS, name), {"spec": spec}) and None


def deleted(server: Server) -> None:
    server.delete(FOURNOS_JOB, Key(NS, "job"))


def job(server: Server, name: str = "job") -> Any:
    return server.get(FOURNOS_JOB, Key(NS, name))


def phase(server: Server, name: str = "job") -> str:
    return str((job(server, name).get("status") or {}).get("phase") or "")
