"""What a MiniCluster may ask of its pods, where no admission policy has refused it."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.kube.resource import Key
from fournos.engine.queueing.job import QueueInputs
from fournos.engine.queueing.workload import WORKLOAD
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Decision,
    Facts,
    LiveGet,
    NeededFacts,
    Present,
    Unknown,
    attempt,
)
from fournos.systems.miniclusters.decide import BINDING, POLICY, decide
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.miniclusters.status import Observed
from tests.unit.systems.miniclusters.actors import NS, QUEUE, get, manifest, submit
from tests.unit.systems.miniclusters.contexts import NOW
from tests.unit.systems.miniclusters.stories import story
from tests.world.harness import run
from tests.world.kueue import Kueue, holding
from tests.world.server import Server

ASKED = LiveGet(BINDING, Key("", POLICY))


def made(time: str) -> Present:
    return Present({"metadata": {"creationTimestamp": f"2026-01-01T{time}Z"}})


OLDER, NEWER = made("10:00:00"), made("11:00:01")
SECRET: dict[str, Any] = {
    "containers": [{"image": "i", "volumes": {"s": {"path": "/s", "secretName": "s"}}}],
}


def decided(
    spec: dict[str, Any],
    answer: Answer | None = None,
    rights: Any = "policy",
    inputs: QueueInputs | None = None,
) -> Decision | NeededFacts:
    one = manifest(**spec)
    one["metadata"] |= {"uid": "mc", "resourceVersion": "1", "creationTimestamp": "2026-01-01T11:00:00Z"}
    observed = Observed(Key(NS, "flux"), one, {}, (), inputs or QueueInputs())
    facts = Facts({ASKED: answer} if answer else {})
    return attempt(decide, observed, facts, NOW, settings=MiniClusterSettings(pod_rights=rights))


def message(found: Decision | NeededFacts) -> str:
    assert isinstance(found, Decision) and found.status is not None and found.steps == ()
    assert found.status["phase"] == "Waiting"
    return str(found.status["message"])


def test_a_secret_takes_the_policy_that_checks_its_author() -> None:
    assert decided(SECRET) == NeededFacts((ASKED,))
    assert message(decided(SECRET, OLDER)) == "Waiting for the pods"
    for answer in (Absent(), NEWER):
        assert "It asks for a Secret, and no policy has checked" in message(decided(SECRET, answer))
    assert "is not known: down" in message(decided(SECRET, Unknown("down")))


def test_an_administrator_refuses_it_to_all_or_to_none() -> None:
    assert "FOURNOS_MINICLUSTER_POD_RIGHTS refuses" in message(decided(SECRET, rights="refused"))
    assert message(decided(SECRET, rights="open")) == "Waiting for the pods"


@pytest.mark.parametrize("rights", ["policy", "refused", "open"])
def test_no_pod_runs_as_an_operator(rights: str) -> None:
    found = decided({"pod": {"serviceAccountName": "fournos"}}, OLDER, rights)
    assert message(found).startswith("ServiceAccount fournos is for an operator")


@pytest.mark.parametrize("rights", ["policy", "refused"])
def test_what_reaches_no_further_needs_no_policy(rights: str) -> None:
    assert message(decided({}, rights=rights)) == "Waiting for the pods"


@pytest.mark.parametrize("queue", [{}, QUEUE])
def test_what_another_cluster_is_to_run_is_refused_here(queue: dict[str, str]) -> None:
    """There the operator's own account makes it, and nobody asks for the author."""
    path = {"containers": [{"image": "i", "volumes": {"s": {"path": "/s", "hostPath": "/"}}}]}
    elsewhere = {**path, "managedBy": "kueue.x-k8s.io/multikueue", "suspend": True, "labels": queue}
    assert "no policy has checked" in message(decided(elsewhere, Absent()))
    allowed = decided(elsewhere, OLDER)
    assert isinstance(allowed, Decision) and allowed.status is None
    assert bool(allowed.steps) is bool(queue)


async def test_what_is_refused_after_an_eviction_gives_its_quota_back() -> None:
    """Its policy has gone meanwhile, or is newer."""

    def setup(server: Server) -> None:
        policy(server)
        submit(server, labels=QUEUE, suspend=True, **SECRET)

    def policy(server: Server) -> None:
        server.create(BINDING, {"metadata": {"name": POLICY}})

    kueue = Kueue()

    def evicted(server: Server) -> None:
        assert holding(server, "flux") and get(server)["status"]["phase"] == "Ready"
        server.delete(BINDING, Key("", POLICY))
        kueue.evict["flux"] = "Preempted"

    server = (await run(story(evicted, setup=setup, kueue=lambda: kueue))).server
    assert "no policy has checked" in get(server)["status"]["message"]
    (workload,) = server.list(WORKLOAD)
    assert workload["spec"]["active"] is False and not holding(server, "flux")
