"""The ends of pods and their results: stopped, drained, failed, and failed sidecars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from fournos.engine.api.conditions import condition
from fournos.engine.api.values import parse_time
from fournos.systems.miniclusters import names
from tests.e2e.miniclusters.clusters import Clusters

LAUNCHED = {"launcher": True}
MADE: dict[str, dict[str, Any]] = {
    "drained": {},
    "emptied": {},
    "works": {
        "backoffLimit": 0,
        "container": {**LAUNCHED, "command": "bash -c 'until [[ -e /tmp/enough ]]; do sleep 1; done'"},
    },
    "worker": {},
    "stops": {},
    "lead": {},
    "again": {"backoffLimit": 1, "container": {**LAUNCHED, "command": "bash -c 'exit 3'"}},
    "side": {
        "container": {**LAUNCHED, "command": "sleep 10", "runFlux": True},
        "containers": [{"name": "broken", "runFlux": False, "command": "exit 4"}],
    },
    "hidden": {
        "size": 1,
        "container": {"command": "true", "runFlux": True, "commands": {"pre": "exit 5"}},
        "containers": [{"name": "stays", "runFlux": False, "command": "sleep 600"}],
    },
    "mount": {"container": {"volumes": {"data": {"path": "/data", "hostPath": "/nowhere"}}}},
    "completes": {"flux": {"completeWorkers": True}},
    "lingers": {
        "container": {
            "command": "echo once",
            # Longer than a lead that waits in vain for workers is left alone.
            "commands": {"post": "[[ $HOSTNAME != lingers-0 ]] || sleep 20"},
        }
    },
}


@dataclass(frozen=True)
class Ends:
    """All of them run side by side, and what happens to their pods has happened."""

    clusters: Clusters
    before: dict[str, list[dict[str, Any]]]
    """The pods of those that were Ready first."""

    def come_back(self, name: str, *indexes: int) -> None:
        """Others have taken the place of these pods, and all brokers are up."""
        clusters, old = self.clusters, self.before[name]
        gone = {old[index]["metadata"]["uid"] for index in indexes}

        def look() -> bool:
            uids = {pod["metadata"]["uid"] for pod in clusters.alive(name)}
            return len(uids) == 2 and not uids & gone

        clusters.until(look, lambda: clusters.explain(name), timeout=120)
        clusters.reaches(name, "Ready", ready=2)
        clusters.sees(name, 2)


@pytest.fixture(scope="module")
def ends(clusters: Clusters) -> Iterator[Ends]:
    for name, spec in MADE.items():
        beside = [{"image": clusters.image, **one} for one in spec.get("containers", ())]
        clusters.make(name, **{**spec, **({"containers": beside} if beside else {})})

    def act(name: str) -> list[dict[str, Any]]:
        clusters.reaches(name, "Ready", ready=2)
        pods = clusters.alive(name)
        ACTS[name](clusters, name, pods)
        return pods

    with ThreadPoolExecutor(len(ACTS)) as pool:
        yield Ends(clusters, dict(zip(ACTS, pool.map(act, ACTS), strict=True)))
    clusters.run("delete", "miniclusters", *MADE, "--wait=false", check=False)


def _drain(clusters: Clusters, name: str, pods: list[dict[str, Any]]) -> None:
    nodes = {pod["spec"]["nodeName"] for pod in pods}
    words = (f"--pod-selector={names.MINICLUSTER_LABEL}={name}", "--ignore-daemonsets", "--force")
    try:
        for node in nodes:
            clusters.kubectl("drain", node, *words, "--delete-emptydir-data", "--timeout=180s")
    finally:
        for node in nodes:
            clusters.kubectl("uncordon", node)


def _empty(clusters: Clusters, name: str, pods: list[dict[str, Any]]) -> None:
    lead, worker = pods
    _delete(clusters, lead)

    def ended() -> bool:
        """True also if it is gone: the MiniCluster has begun again."""
        left = [pod for pod in clusters.pods(name) if pod["metadata"]["uid"] == worker["metadata"]["uid"]]
        return not left or all("terminated" in one["state"] for one in left[0]["status"]["containerStatuses"])

    clusters.until(ended, lambda: clusters.explain(name), timeout=120)
    clusters.run("delete", "pod", worker["metadata"]["name"], "--wait=false", "--ignore-not-found")


def _delete(clusters: Clusters, pod: dict[str, Any]) -> None:
    """Deletes a pod with its own grace period, as kubectl does."""
    clusters.run("delete", "pod", pod["metadata"]["name"], "--wait=false")


def _delete_lead(clusters: Clusters, _: str, pods: list[dict[str, Any]]) -> None:
    _delete(clusters, pods[0])


def _stop_again_and_again(clusters: Clusters, name: str, _: list[dict[str, Any]]) -> None:
    """The Job controller doubles its wait with each failure that it remembers: 10, 20, 40 s."""
    for _ in range(3):
        (worker,) = [pod for pod in clusters.alive(name) if _index(pod) == 1]
        _delete(clusters, worker)
        seen: dict[str, dict[str, Any]] = {}

        def replaced(worker: dict[str, Any] = worker, seen: dict[str, dict[str, Any]] = seen) -> bool:
            pods = [pod for pod in clusters.pods(name) if _index(pod) == 1]
            for pod in pods:
                seen["old" if pod["metadata"]["uid"] == worker["metadata"]["uid"] else "new"] = pod
            return "new" in seen

        clusters.until(replaced, lambda: clusters.explain(name), timeout=120)
        began = parse_time(seen["new"]["metadata"]["creationTimestamp"])
        (status,) = seen["old"]["status"]["containerStatuses"]
        WAITS.append((began - parse_time(status["state"]["terminated"]["finishedAt"])).total_seconds())
        clusters.reaches(name, "Ready", ready=2)


def _delete_worker(clusters: Clusters, _: str, pods: list[dict[str, Any]]) -> None:
    _delete(clusters, pods[1])


WAITS: list[float] = []
"""Seconds between the end of a stopped worker's container and the next pod."""
ACTS: dict[str, Callable[[Clusters, str, list[dict[str, Any]]], None]] = {
    "drained": _drain,
    "emptied": _empty,
    "works": _delete_lead,
    "worker": _delete_worker,
    "stops": _stop_again_and_again,
    "lead": _delete_lead,
    "completes": _delete_worker,
}
"""What happens to them as soon as they are Ready."""


def test_a_stopped_lead_runs_its_command_again_free_of_charge(ends: Ends) -> None:
    clusters = ends.clusters
    ends.come_back("works", 0)
    clusters.run(
        "exec", clusters.lead("works")["metadata"]["name"], "-c", "works", "--", "touch", "/tmp/enough"
    )
    status = clusters.reaches("works", "Finished")
    assert status["exitCode"] == 0, clusters.explain("works")
    uids = [pod["metadata"]["uid"] for pod in clusters.pods("works") if _index(pod) == 0]
    assert ends.before["works"][0]["metadata"]["uid"] not in uids and len(uids) == 1


def test_a_stopped_worker_comes_back(ends: Ends) -> None:
    ends.come_back("worker", 1)
    assert ends.clusters.lead("worker")["metadata"]["uid"] == ends.before["worker"][0]["metadata"]["uid"]


def test_a_worker_does_not_wait_for_the_stops_of_last_week(ends: Ends) -> None:
    print("seconds until the next pod:", WAITS)
    assert len(WAITS) == 3 and max(WAITS) < 2 * 10


def test_a_stopped_interactive_lead_begins_again(ends: Ends) -> None:
    ends.come_back("lead", 0)


def test_a_drained_node_gives_its_pods_back(ends: Ends) -> None:
    ends.come_back("drained", 0, 1)


def test_a_worker_that_its_lead_ended_before_it_was_deleted_comes_back(ends: Ends) -> None:
    """A drain that deletes the lead's pod first: no pod is left that reports how the worker ended."""
    ends.come_back("emptied", 0, 1)


def test_with_complete_workers_a_stopped_pod_is_not_replaced(ends: Ends) -> None:
    clusters = ends.clusters
    clusters.completed("completes", "1")
    _delete(clusters, ends.before["completes"][0])
    assert clusters.reaches("completes", "Finished")["exitCode"] == 0


def test_a_failed_command_is_run_again_as_often_as_asked_for(ends: Ends) -> None:
    status = ends.clusters.reaches("again", "Finished")
    assert status["exitCode"] == 3, ends.clusters.explain("again")
    leads = [pod for pod in ends.clusters.pods("again") if _index(pod) == 0]
    assert len(leads) == 2
    assert [_ended(pod) for pod in leads] == [3, 3]


def test_a_command_is_not_run_again_while_its_lead_takes_long_to_end(ends: Ends) -> None:
    """Its workers have ended, and it looks as if it were up."""
    clusters = ends.clusters
    assert clusters.reaches("lingers", "Finished")["exitCode"] == 0
    assert "Restarted" not in clusters.run("get", "events", "--field-selector=involvedObject.name=lingers")
    assert clusters.log("lingers").replace("\r", "") == "once\n"


def test_a_failed_sidecar_is_reported_and_changes_nothing(ends: Ends) -> None:
    status = ends.clusters.reaches("side", "Finished")
    assert status["exitCode"] == 0, ends.clusters.explain("side")
    assert len([pod for pod in ends.clusters.pods("side") if _index(pod) == 0]) <= 1
    found = condition({"status": status}, "JobSidecarFailed") or {}
    assert "container broken of pod side-0-" in found["message"] and "exit code 4" in found["message"]


def test_a_failing_hook_is_seen_beside_a_container_that_stays(ends: Ends) -> None:
    status = ends.clusters.reaches("hidden", "Finished")
    assert status.get("exitCode") != 0 and "failed with exit code 5" in status["message"], status


def test_a_volume_that_cannot_be_mounted_is_in_the_message(ends: Ends) -> None:
    """Kubernetes reports it in an Event only."""
    clusters = ends.clusters
    clusters.until(
        lambda: "FailedMount" in (clusters.stand("mount").get("message") or ""),
        lambda: clusters.explain("mount"),
        timeout=120,
    )


def _index(pod: dict[str, Any]) -> int:
    return int(pod["metadata"]["labels"][names.COMPLETION_INDEX_LABEL])


def _ended(pod: dict[str, Any]) -> int:
    (status,) = pod["status"]["containerStatuses"]
    return int(status["state"]["terminated"]["exitCode"])
