"""0.1.0 → this version → 0.1.0, rolling, with work of each kind under way: all of it goes on, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from devcluster.progress import Progress
from tests.e2e.hub import TERMINAL, Hub
from tests.e2e.upgrades.conftest import CLUSTERS, Administrator, Release
from tests.fakes.flux_image import flux_image

BUSYBOX = "docker.io/library/busybox:1.36"
LONG = "420"
"""Seconds; what runs that long is ended by the test."""
PIPELINES = [
    {
        "apiVersion": "tekton.dev/v1",
        "kind": "Pipeline",
        # A shell that ends at once: there is nothing to resolve.
        "metadata": {"name": name, "annotations": {"fournos.dev/resolve-image": BUSYBOX}},
        "spec": {
            "tasks": [
                {
                    "name": "sleep",
                    "taskSpec": {
                        "steps": [
                            {
                                "name": "sleep",
                                "image": BUSYBOX,
                                "script": f"#!/bin/sh\nsleep {seconds}\n",
                            }
                        ]
                    },
                }
            ]
        },
    }
    for name, seconds in (("brief", "0"), ("long", LONG))
]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "wrapped"},
    "spec": {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": BUSYBOX, "command": ["sleep", LONG]}],
    },
}
WRAPPER = {
    "apiVersion": "workload.codeflare.dev/v1beta2",
    "kind": "AppWrapper",
    "metadata": {"name": "wrapper"},
    "spec": {"components": [{"template": POD}]},
}
LOCKED = {
    "apiVersion": "fournos.dev/v1",
    "kind": "FournosCluster",
    "metadata": {"name": "cluster-3", "namespace": CLUSTERS},
    "spec": {"kubeconfigSecret": "kubeconfig-cluster-3", "owner": "perf-team"},
}
OTHERS = ("new-", "fournos-", "affinity-assistant-")
"""What names of other things begin with: new jobs, the operator's pods, Tekton's pods of volumes."""
MADE = ("pipelineruns", "workloads.kueue.x-k8s.io", "pods", "jobs.batch")


def minicluster() -> dict[str, Any]:
    image = flux_image(Progress()).tag
    return {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": {"name": "flux"},
        "spec": {
            "size": 1,
            "logging": {"quiet": True},
            "flux": {"container": {"image": image, "disable": True}},
            "containers": [{"image": image, "command": f"sleep {LONG}"}],
        },
    }


@dataclass(frozen=True)
class Work:
    """What was under way before the first change."""

    hub: Hub

    def submit(self, name: str, pipeline: str, cluster: str) -> str:
        """A job that has the cluster to itself."""
        return self.hub.submit(name, pipeline=pipeline, cluster=cluster, exclusive=True, hardware=None)

    def phases(self) -> dict[str, str]:
        kinds = ("fournosjobs", "appwrappers", "miniclusters")
        return {
            f"{kind}/{item['metadata']['name']}": item.get("status", {}).get("phase", "")
            for kind in kinds
            for item in self.hub.list(kind)
        }

    def made(self) -> dict[str, str]:
        """Kind and name → UID of what the operators made for them, without pods that ended."""
        return {
            f"{kind}/{item['metadata']['name']}": item["metadata"]["uid"]
            for kind in MADE
            for item in self.hub.list(kind)
            if item.get("status", {}).get("phase") not in TERMINAL
            and not item["metadata"]["name"].startswith(OTHERS)
        }

    def locked(self) -> bool:
        words = ("get", "fournoscluster", "cluster-3", "-n", CLUSTERS)
        return self.hub.kubectl(*words, "-o", "jsonpath={.status.locked}") == "true"


@pytest.fixture(scope="module")
def work(hub: Hub, administrator: Administrator, before: Release) -> Work:
    """A job in each phase, a lock, an AppWrapper and a MiniCluster under the release before."""
    hub.kubectl("apply", "-f", str(administrator.folder / "install-0.1.0.yaml"))
    before.await_rollouts(hub)
    work = Work(hub)
    hub.apply(*PIPELINES, WRAPPER, minicluster())
    hub.apply(LOCKED, namespace=CLUSTERS)
    work.submit("done", "brief", "cluster-1")
    work.submit("running", "long", "cluster-2")
    hub.wait("running", ["Running"])
    work.submit("waiting", "brief", "cluster-2")
    work.submit("stopped", "long", "cluster-4")
    hub.wait("stopped", ["Running"])
    hub.shutdown("stopped", "Terminate")
    hub.wait("stopped", ["Stopped"])
    hub.wait("waiting", ["Pending"])
    hub.wait("done", ["Succeeded"])
    hub.until(lambda: work.phases()["appwrappers/wrapper"] == "Running", lambda: str(work.phases()))
    hub.until(lambda: work.phases()["miniclusters/flux"] == "Ready", lambda: str(work.phases()))
    hub.until(work.locked, lambda: "cluster-3 is not locked")
    hub.until(lambda: _pods_run(hub), lambda: "a pod does not run, or has not ended", timeout=120)
    return work


def _pods_run(hub: Hub) -> bool:
    """True if no pod is about to start or to end: Tekton tells the end of a run before that of its pod."""
    pods = {pod["metadata"]["name"]: pod for pod in hub.list("pods")}
    ended = all(
        pod["status"]["phase"] == "Succeeded" for name, pod in pods.items() if name.startswith("done-")
    )
    return ended and all(
        pod["status"]["phase"] in ("Running", "Succeeded") and "deletionTimestamp" not in pod["metadata"]
        for pod in pods.values()
    )


def test_to_this_version(work: Work, administrator: Administrator, after: Release) -> None:
    phases, made = work.phases(), work.made()
    administrator("From 0.1.0", "kubectl apply", "kubectl delete")
    goes_on(work, after, phases, made)
    assert not work.hub.exists("deployment", "fournos"), "the operator of 0.1.0 is still there"


def test_and_back(work: Work, administrator: Administrator, before: Release) -> None:
    phases, made = work.phases(), work.made()
    administrator("Back to 0.1.0")
    goes_on(work, before, phases, made)


def test_and_to_this_version_by_helm(work: Work, administrator: Administrator, after: Release) -> None:
    phases, made = work.phases(), work.made()
    administrator("From 0.1.0", "helm install", "kubectl delete")
    goes_on(work, after, phases, made)


def goes_on(work: Work, release: Release, phases: dict[str, str], made: dict[str, str]) -> None:
    """What was under way is as it was, after a new job from its start to its end."""
    assert phases["fournosjobs/running"] == "Running" and phases["fournosjobs/waiting"] == "Pending"
    release.await_rollouts(work.hub)
    name = work.submit(f"new-{len(phases)}", "brief", "cluster-1")
    work.hub.wait(name, ["Succeeded"], timeout=120)
    assert work.phases().items() >= phases.items()
    assert work.made() == made and work.locked()


def test_what_began_before_ends_after(work: Work) -> None:
    """The queue moves on when the running job is stopped, and each thing ends."""
    work.hub.shutdown("running", "Stop")
    assert work.hub.wait("running")["phase"] == "Stopped"
    assert work.hub.wait("waiting")["phase"] == "Succeeded"
    runs = [run["metadata"]["labels"]["fournos.dev/job-name"] for run in work.hub.list("pipelineruns")]
    assert len(runs) == len(set(runs)), "a job ran twice"
    work.hub.run("delete", "appwrapper", "wrapper", "--timeout=60s")
    work.hub.run("delete", "minicluster", "flux", "--timeout=60s")
    unlock = ("--type=merge", "-p", '{"spec":{"owner":null}}')
    work.hub.kubectl("patch", "fournoscluster", "cluster-3", "-n", CLUSTERS, *unlock)
    work.hub.until(lambda: not work.locked(), lambda: "cluster-3 stays locked")
