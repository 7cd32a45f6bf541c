"""Lives of MiniClusters in the in-memory world, and what must always hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fournos.api.kinds import MINICLUSTER
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.resource import CONFIG_MAP, JOB, POD, SECRET, SERVICE, Key, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.settings import MiniClusterSettings
from tests.unit.systems.miniclusters.actors import (
    NS,
    QUEUE,
    SETTINGS,
    Cluster,
    change,
    controller,
    flavors,
    submit,
)
from tests.world.harness import Scenario, run
from tests.world.kueue import Kueue, holding
from tests.world.server import Server

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
    "sidecar": story(world=ends_with(0, beside=True), settings=MiniClusterSettings(end_grace_sec=10)),
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
