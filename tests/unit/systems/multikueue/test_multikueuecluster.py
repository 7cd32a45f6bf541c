"""Connections of MultiKueueClusters: opened, refused and closed."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fournos.engine.api.conditions import condition
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import SECRET, Key
from fournos.engine.kube.store import Store
from fournos.engine.queueing.kinds import ADMISSION_CHECK
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.decision import Decision, Facts
from fournos.systems.multikueue import names
from fournos.systems.multikueue.admissioncheck import Observed, Worker, decide, observe
from fournos.systems.multikueue.config import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG
from fournos.systems.multikueue.multikueuecluster import multikueueclusters
from fournos.systems.multikueue.part import multikueue_controllers
from fournos.systems.multikueue.settings import MultiKueueSettings
from tests.multikueue_configuration import configuration, settings
from tests.unit.systems.multikueue.workers import CHECK, FakeWorkers
from tests.world.harness import Scenario, run
from tests.world.server import Server, VirtualClock

SETTINGS = settings("Foo.v1.example.com")
KUEUE = "kueue-system"


class Connected(FakeWorkers):
    """Records the connections, and refuses what a fleet would."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: dict[str, str] = {}
        self.refusals: dict[str, tuple[str, str]] = {}
        self.in_use: set[str] = set()

    def unusable_reason(self, name: str, kind: Any = None) -> str:
        return ""

    def holds(self, name: str) -> bool:
        return name in self.in_use

    def connect(self, name: str, kubeconfig: bytes, *, version: str) -> None:
        self.refusals.pop(name, None)
        if b"exec" in kubeconfig:
            self.refuse(name, version, "it runs a program")
            raise KubeError("it runs a program", reason="ExecNotAllowed")
        self.versions[name] = version

    def disconnect(self, name: str) -> None:
        self.versions.pop(name, None)
        self.refusals.pop(name, None)

    def version_of(self, name: str) -> str | None:
        return self.versions.get(name)

    def refuse(self, name: str, version: str, text: str) -> None:
        self.versions.pop(name, None)
        self.refusals[name] = (version, text)

    def refused(self, name: str) -> str | None:
        return self.refusals[name][0] if name in self.refusals else None


def encoded(content: bytes) -> dict[str, str]:
    return {"kubeconfig": base64.b64encode(content).decode()}


def secret(server: Server, name: str, namespace: str, content: bytes, **labels: str) -> None:
    meta = {"name": name, "namespace": namespace, "labels": labels}
    server.create(SECRET, {"metadata": meta, "data": encoded(content)})


def named(server: Server, *workers: str) -> None:
    parameters = {"kind": "MultiKueueConfig", "name": "all"}
    spec = {"controllerName": names.CONTROLLER, "parameters": parameters}
    server.create(ADMISSION_CHECK, {"metadata": {"name": CHECK}, "spec": spec})
    server.create(MULTIKUEUE_CONFIG, {"metadata": {"name": "all"}, "spec": {"clusters": list(workers)}})


def cluster(server: Server, name: str, **source: Any) -> None:
    source = source or {"kubeConfig": {"location": f"{name}-secret", "locationType": "Secret"}}
    server.create(MULTIKUEUE_CLUSTER, {"metadata": {"name": name}, "spec": {"clusterSource": source}})


async def linked(setup: Any, *script: Any) -> Connected:
    workers = Connected()
    await run(Scenario(multikueueclusters(SETTINGS, workers), setup, script=script))
    return workers


async def test_only_workers_that_our_checks_name_are_connected() -> None:
    def setup(server: Server) -> None:
        named(server, "w1")
        for name in ("w1", "kueues-own"):
            cluster(server, name)
            secret(server, f"{name}-secret", KUEUE, b"good")

    workers = await linked(setup)
    assert list(workers.versions) == ["w1"]


async def test_the_kueue_namespace_is_where_kubeconfigs_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_MULTIKUEUE_CONFIG_FILE", configuration("Foo.v1.example.com"))
    monkeypatch.setenv("FOURNOS_MULTIKUEUE_KUEUE_NAMESPACE", "queues")

    def setup(server: Server) -> None:
        named(server, "w1", "w2")
        for worker, namespace in (("w1", "queues"), ("w2", KUEUE)):
            cluster(server, worker)
            secret(server, f"{worker}-secret", namespace, b"good")

    workers = Connected()
    await run(Scenario(multikueueclusters(MultiKueueSettings(), workers), setup))
    assert list(workers.versions) == ["w1"]


async def test_a_rotated_secret_connects_anew_and_a_removed_cluster_is_disconnected() -> None:
    seen: list[str] = []

    def setup(server: Server) -> None:
        named(server, "w1")
        cluster(server, "w1")
        secret(server, "w1-secret", KUEUE, b"good")

    def rotate(server: Server) -> None:
        server.patch(SECRET, Key(KUEUE, "w1-secret"), {"data": encoded(b"better")})

    def look(server: Server) -> None:
        seen.append(server.get(SECRET, Key(KUEUE, "w1-secret"))["metadata"]["resourceVersion"])

    workers = await linked(setup, rotate, look)
    assert workers.versions["w1"].endswith(f"/{seen[0]}")
    workers = await linked(setup, lambda server: server.delete(MULTIKUEUE_CLUSTER, Key("", "w1")))
    assert workers.versions == {} and workers.refusals == {}


class Poisoned(Connected):
    def connect(self, name: str, kubeconfig: bytes, *, version: str) -> None:
        if name == "w1":
            raise RuntimeError("nobody has thought of this")
        super().connect(name, kubeconfig, version=version)


async def test_a_kubeconfig_that_nobody_has_thought_of_stops_no_other() -> None:
    workers = Poisoned()

    def setup(server: Server) -> None:
        named(server, "w1", "w2")
        for name in ("w1", "w2"):
            cluster(server, name)
            secret(server, f"{name}-secret", KUEUE, b"good")

    await run(Scenario(multikueueclusters(SETTINGS, workers), setup))
    assert list(workers.versions) == ["w2"]
    assert workers.refusals["w1"][1] == "its kubeconfig cannot be used: RuntimeError"


@pytest.mark.parametrize("gone", ["the MultiKueueCluster", "its place in the list"])
async def test_a_worker_that_leaves_stays_connected_until_it_is_empty(gone: str) -> None:
    """What runs there is withdrawn first: nobody else could stop it."""
    workers, seen = Connected(), []

    def setup(server: Server) -> None:
        named(server, "w1")
        cluster(server, "w1")
        secret(server, "w1-secret", KUEUE, b"good")
        workers.in_use.add("w1")

    def leave(server: Server) -> None:
        if gone == "the MultiKueueCluster":
            server.delete(MULTIKUEUE_CLUSTER, Key("", "w1"))
        else:
            server.patch(MULTIKUEUE_CONFIG, Key("", "all"), {"spec": {"clusters": ["w2"]}})

    def empty(server: Server) -> None:
        seen.append(dict(workers.versions))
        workers.in_use.clear()

    await run(Scenario(multikueueclusters(SETTINGS, workers), setup, script=(leave, empty)))
    assert seen == [{"w1": seen[0]["w1"]}] and workers.versions == {}


async def test_a_worker_of_which_a_check_has_a_condition_is_connected() -> None:
    """It has left the list; what it may still run is found after a restart, too."""

    def setup(server: Server) -> None:
        named(server, "w2")
        cluster(server, "w1")
        secret(server, "w1-secret", KUEUE, b"good")
        conditions = [{"type": f"{names.WORKER_CONDITION}w1", "status": "True"}]
        server.patch(
            ADMISSION_CHECK, Key("", CHECK), {"status": {"conditions": conditions}}, subresource="status"
        )

    assert list((await linked(setup)).versions) == ["w1"]


@pytest.mark.parametrize(
    ("source", "content", "expected"),
    [
        ({"kubeConfig": {"location": "/etc/x", "locationType": "Path"}}, b"good", "locationType Path"),
        ({"clusterProfileRef": {"name": "p"}}, b"good", "clusterProfileRef is not supported"),
        ({}, None, "there is no Secret kueue-system/w1-secret"),
        ({}, b"exec", "it runs a program"),
    ],
)
async def test_what_cannot_be_used_has_a_reason(source: Any, content: bytes | None, expected: str) -> None:
    def setup(server: Server) -> None:
        named(server, "w1")
        cluster(server, "w1", **source)
        if content:
            secret(server, "w1-secret", KUEUE, content)

    workers = await linked(setup)
    assert expected in workers.refusals["w1"][1] and workers.versions == {}


@pytest.mark.looptime
async def test_a_check_gets_active_before_there_is_any_job() -> None:
    """Nothing is queued through a check that is not active: its first worker must wake it."""
    woken: list[tuple[str, Key | None]] = []
    _, workers = multikueue_controllers(
        SETTINGS, clock=VirtualClock(), wake=lambda name, key: woken.append((name, key))
    )
    workers.refuse("w1", "1", "no")
    assert woken == [("multikueue-checks", None), ("multikueue", None)], "and all Workloads look again"


# --- admission check -----------------------------------------------------------------------------------
# An AdmissionCheck with more workers than its status may have conditions.

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MANY = [f"w{number:02}" for number in range(names.MAX_WORKERS)]


def check(conditions: Any = ()) -> dict[str, Any]:
    return {
        "metadata": {"name": "c", "generation": 1, "resourceVersion": "1"},
        "spec": {},
        "status": {"conditions": list(conditions)},
    }


def decided(before: Any, lost: Any, seconds: float = 0) -> list[Any]:
    """Returns the conditions, with these workers lost."""
    workers = tuple(
        Worker(name, exists=True, probed=True, unusable_reason="no answer" if name in lost else "")
        for name in MANY
    )
    decision: Decision = decide(
        Observed(check(before), "", workers), Facts(), NOW + timedelta(seconds=seconds)
    )
    assert decision.status is not None
    return list(decision.status["conditions"])


def shown(conditions: list[Any], status: str) -> set[str]:
    prefix = names.WORKER_CONDITION
    return {
        one["type"].removeprefix(prefix)
        for one in conditions
        if one["type"].startswith(prefix) and one["status"] == status
    }


def test_usable_workers_are_left_out_and_lost_ones_are_not() -> None:
    lost = {"w00", "w10", "w19"}
    conditions = decided((), lost)
    assert len(conditions) == names.MAX_CONDITIONS
    assert shown(conditions, "False") == lost
    active = condition(check(conditions), "Active") or {}
    assert (active["status"], active["message"]) == ("True", "Inactive clusters: [w00 w10 w19]")


def test_a_worker_that_was_left_out_is_lost_from_the_moment_it_is_seen() -> None:
    before = decided((), ())
    assert "w19" not in shown(before, "True")
    found = condition(check(decided(before, {"w19"}, 60)), f"{names.WORKER_CONDITION}w19") or {}
    assert (found["status"], found["lastTransitionTime"]) == ("False", "2026-03-01T12:01:00Z")


def test_of_too_many_lost_workers_those_lost_first_keep_their_time_and_nothing_changes_any_more() -> None:
    first = decided((), MANY[5:], 0)
    later = decided(first, MANY, 60)
    assert shown(later, "False") == set(MANY[5:])
    assert decided(later, MANY, 120) == later


class Leaving(FakeWorkers):
    """One worker, "w1", that has left the MultiKueueConfig."""

    def __init__(self, reason: str, *, holds: bool) -> None:
        super().__init__()
        self.reason, self.in_use = reason, holds

    def unusable_reason(self, name: str, kind: Any = None) -> str:
        return self.reason

    def holds(self, name: str) -> bool:
        return self.in_use


@pytest.mark.parametrize(
    ("reason", "holds", "kept"), [("", True, True), ("no answer", False, True), ("", False, False)]
)
def test_the_condition_of_a_worker_stays_until_nothing_is_there(reason: str, holds: bool, kept: bool) -> None:
    """It is the time since which the worker is lost, and the memory that something may be there."""
    parameters = {"kind": "MultiKueueConfig", "name": "all"}
    spec = {"controllerName": names.CONTROLLER, "parameters": parameters}
    condition_ = {"type": f"{names.WORKER_CONDITION}w1", "status": "True", "reason": "x", "message": ""}
    own = {**check([{**condition_, "lastTransitionTime": "2026-03-01T11:00:00Z"}]), "spec": spec}
    stores = {kind: Store() for kind in (ADMISSION_CHECK, MULTIKUEUE_CONFIG, MULTIKUEUE_CLUSTER)}
    for kind, obj in (
        (ADMISSION_CHECK, own),
        (MULTIKUEUE_CONFIG, {"metadata": {"name": "all", "resourceVersion": "1"}, "spec": {"clusters": []}}),
        (MULTIKUEUE_CLUSTER, {"metadata": {"name": "w1", "resourceVersion": "1"}}),
    ):
        stores[kind].replace([obj], "1")
    around = observe(Caches(stores), Key("", "c"), settings=SETTINGS, workers=Leaving(reason, holds=holds))  # type: ignore[arg-type]
    assert around is not None
    decision = decide(around, Facts(), NOW)
    assert decision.status is not None
    conditions = decision.status["conditions"]
    assert bool(shown(conditions, "False" if reason else "True")) is kept
    assert (decision.wake_at is not None) is kept
    active = condition(check(conditions), "Active") or {}
    assert active["message"] == "the MultiKueueConfig names no cluster"


def test_few_workers_all_have_a_condition() -> None:
    workers = tuple(Worker(name, True, True, "") for name in MANY[:15])
    status = decide(Observed(check(), "", workers), Facts(), NOW).status
    assert status is not None
    assert shown(status["conditions"], "True") == set(MANY[:15])
