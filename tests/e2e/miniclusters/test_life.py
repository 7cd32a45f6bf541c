"""What happens to MiniClusters on real pods: resizes, killed pods, late names, eviction, many pods.

All but the last run side by side, each in a thread: most of a life is waiting.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
import yaml

from fournos.systems.miniclusters import names
from tests.e2e.miniclusters.clusters import KIND, QUEUE, Clusters
from tests.e2e.miniclusters.conftest import NAMESPACE

CPU = {"resources": {"requests": {"cpu": "100m"}}}
SLOW = "sleep 6"
QUOTA = threading.Lock()
"""Of those that need the queue's quota."""
LIVES: dict[str, Callable[[Clusters], None]] = {}


@pytest.fixture(scope="module")
def lives(clusters: Clusters, request: pytest.FixtureRequest) -> Iterator[Mapping[str, Future[None]]]:
    """Starts the selected tests of this module concurrently."""
    wanted = [item.name for item in request.session.items if item.path == request.path and item.name in LIVES]
    with ThreadPoolExecutor(max(1, len(wanted))) as pool:
        yield {name: pool.submit(LIVES[name], clusters) for name in wanted}


def side_by_side(life: Callable[[Clusters], None]) -> Callable[[Mapping[str, Future[None]]], None]:
    """The test waits for its life, which began with those of the others."""
    LIVES[life.__name__] = life

    def test(lives: Mapping[str, Future[None]]) -> None:
        lives[life.__name__].result()

    test.__name__, test.__doc__ = life.__name__, life.__doc__
    return test


def _uids(clusters: Clusters, name: str) -> list[str]:
    return [pod["metadata"]["uid"] for pod in clusters.alive(name)]


@side_by_side
def test_it_grows_shrinks_and_drains_without_touching_the_others(clusters: Clusters) -> None:
    name = clusters.make("elastic", size=2, maxSize=4)
    clusters.reaches(name, "Ready", ready=2, size=2)
    before = _uids(clusters, name)
    clusters.run("scale", KIND, name, "--replicas=4")
    clusters.reaches(name, "Ready", ready=4, size=4)
    clusters.sees(name, 4)
    assert _uids(clusters, name)[:2] == before
    # A task on each rank; those on the ranks that go may end.
    clusters.flux(name, f"flux submit -N 4 -n 4 --quiet {SLOW}")
    clusters.run("scale", KIND, name, "--replicas=1")
    clusters.reaches(name, "Ready", ready=1, size=1)
    assert _uids(clusters, name) == before[:1]
    assert "CD" in clusters.flux(name, "flux jobs -a -n")
    clusters.sees(name, 1)
    clusters.run("scale", KIND, name, "--replicas=2")
    clusters.reaches(name, "Ready", ready=2, size=2)
    clusters.sees(name, 2)
    refused = clusters.run("scale", KIND, name, "--replicas=9", check=False)
    assert "scaled" not in refused
    assert _uids(clusters, name)[:1] == before[:1]
    clusters.flux(name, "flux shutdown", check=False)  # it ends what runs it
    assert clusters.reaches(name, "Finished")["exitCode"] == 0


@side_by_side
def test_a_killed_worker_comes_back_and_a_killed_lead_begins_again(clusters: Clusters) -> None:
    name = clusters.make("killed", size=2)
    clusters.reaches(name, "Ready")
    lead, worker = clusters.alive(name)
    clusters.run("delete", "pod", worker["metadata"]["name"], "--grace-period=0", "--force")
    clusters.until(
        lambda: len(_uids(clusters, name)) == 2 and worker["metadata"]["uid"] not in _uids(clusters, name),
        lambda: clusters.explain(name),
    )
    clusters.reaches(name, "Ready")
    clusters.sees(name, 2)
    assert clusters.lead(name)["metadata"]["uid"] == lead["metadata"]["uid"]
    clusters.run("delete", "pod", lead["metadata"]["name"], "--grace-period=0", "--force")
    clusters.until(
        lambda: (
            (found := clusters.alive(name))
            and len(found) == 2
            and found[0]["metadata"]["uid"] != lead["metadata"]["uid"]
        ),
        lambda: clusters.explain(name),
    )
    clusters.reaches(name, "Ready")
    clusters.sees(name, 2)
    clusters.run("delete", KIND, name, "--timeout=180s")
    clusters.gone(lambda: clusters.pods(name))


@side_by_side
def test_brokers_wait_for_names_that_come_late(clusters: Clusters) -> None:
    """The Service has no endpoints at first, so the lead's name is unknown to its workers."""
    meta = {"name": "late", "labels": {names.HEADLESS_LABEL: "late"}}
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"nobody": "yet"}}
    clusters.apply({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": service})
    name = clusters.make(
        "late",
        network={"headlessName": "late"},
        flux={"minimalService": True},
        tasks=2,
        container={"command": "echo hello world"},
    )
    # Their sockets are there, and none has joined.
    clusters.until(
        lambda: "2 of 2 pods run, 0 are ready: waiting" in (clusters.stand(name).get("message") or ""),
        lambda: clusters.explain(name),
        timeout=180,
    )
    # One whose names are known ends meanwhile.
    prompt = clusters.make("prompt", size=2, tasks=2, container={"command": "echo hello"})
    assert clusters.reaches(prompt, "Finished")["exitCode"] == 0
    assert clusters.stand(name)["phase"] != "Finished"
    selector = {"nobody": None, names.HEADLESS_LABEL: "late"}
    clusters.run(
        "patch", "service", "late", "--type=merge", "-p", json.dumps({"spec": {"selector": selector}})
    )
    assert clusters.reaches(name, "Finished")["exitCode"] == 0
    assert clusters.log(name).replace("\r", "") == "hello world\n" * 2


@side_by_side
def test_evicted_by_kueue_and_resumed(clusters: Clusters) -> None:
    with QUOTA:
        low = clusters.make("low", queue=QUEUE, priority=f"{NAMESPACE}-low", size=2, maxSize=4, container=CPU)
        clusters.reaches(low, "Ready")
        clusters.run("scale", KIND, low, "--replicas=3")
        clusters.reaches(low, "Ready", size=3)
        clusters.run("scale", KIND, low, "--replicas=2")
        clusters.reaches(low, "Ready", size=2)
        (workload,) = clusters.list("workloads")
        assert workload["status"]["reclaimablePods"] == [{"name": "main", "count": 2}]
        high = clusters.make(
            "high",
            queue=QUEUE,
            priority=f"{NAMESPACE}-high",
            size=2,
            tasks=2,
            container={"command": "sleep 5", "resources": {"requests": {"cpu": "150m"}}},
        )
        # Of 0.4 CPUs 0.2 are in use, and 0.3 are asked for.
        clusters.until(lambda: clusters.get(KIND, low)["spec"].get("suspend"), lambda: clusters.explain(low))
        clusters.gone(lambda: clusters.pods(low))
        assert clusters.reaches(high, "Finished")["exitCode"] == 0
        clusters.reaches(low, "Ready", ready=2)
        clusters.sees(low, 2)
        clusters.run("delete", KIND, low, high, "--timeout=180s")
        clusters.gone(lambda: clusters.list("workloads"))


@side_by_side
def test_queued_by_the_labels_of_its_job(clusters: Clusters) -> None:
    """As upstream: Kueue's own integration queues the Job, two of which do not fit."""
    with QUOTA:
        labels = {"kueue.x-k8s.io/queue-name": QUEUE}
        first = clusters.make("first", size=2, maxSize=3, jobLabels=labels, container=CPU)
        clusters.reaches(first, "Ready", ready=2)
        second = clusters.make(
            "second",
            size=2,
            tasks=2,
            jobLabels=labels,
            container={"command": "echo hello", "resources": {"requests": {"cpu": "150m"}}},
        )
        clusters.until(
            lambda: "uspended" in (clusters.stand(second).get("message") or ""),
            lambda: clusters.explain(second),
        )
        assert not clusters.pods(second)
        before = _uids(clusters, first)
        clusters.run("scale", KIND, first, "--replicas=3")
        clusters.until(
            lambda: "size stays 2" in (clusters.stand(first).get("message") or ""),
            lambda: clusters.explain(first),
        )
        assert _uids(clusters, first) == before
        clusters.run("delete", KIND, first, "--timeout=180s")
        assert clusters.reaches(second, "Finished")["exitCode"] == 0
        assert clusters.log(second).replace("\r", "") == "hello\n" * 2
        clusters.run("delete", KIND, second, "--timeout=180s")


@pytest.mark.timing
@pytest.mark.timeout(1000)
def test_many_pods(clusters: Clusters) -> None:
    size = 64
    start = time.monotonic()
    affinity = {"disableAffinity": True}
    name = clusters.make("many", size=size, tasks=size, network=affinity, container={"command": "hostname"})
    assert clusters.reaches(name, "Finished", limit=800)["exitCode"] == 0
    output = clusters.log(name).replace("\r", "").split()
    assert sorted(output) == sorted(f"many-{index}" for index in range(size))
    print(yaml.safe_dump({"pods": size, "seconds": round(time.monotonic() - start, 1)}))
    clusters.run("delete", KIND, name, "--timeout=180s")
