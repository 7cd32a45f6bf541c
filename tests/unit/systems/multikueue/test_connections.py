"""Connections of MultiKueueClusters and FournosClusters: opened, copied, refused and closed."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import SECRET, Key
from fournos.engine.queueing.kinds import ADMISSION_CHECK
from fournos.systems.multikueue import names
from fournos.systems.multikueue.controller import multikueue_controllers
from fournos.systems.multikueue.fournoscluster.build import copy_metadata, secret_name
from fournos.systems.multikueue.fournoscluster.controller import fournosclusters
from fournos.systems.multikueue.kinds import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG
from fournos.systems.multikueue.multikueuecluster.controller import multikueueclusters
from fournos.systems.multikueue.settings import MultiKueueSettings
from tests.fakes.clusters import kubeconfig
from tests.unit.systems.multikueue.workers import CHECK, FakeWorkers
from tests.world.harness import DISTURBED, Scenario, run
from tests.world.server import Server, VirtualClock

SETTINGS = MultiKueueSettings(external_frameworks="Foo.v1.example.com", clusters_namespace="hearth")
KUEUE, HEARTH, SECRETS = "kueue-system", "hearth", "psap-secrets"


class Connected(FakeWorkers):
    """Records the connections, and refuses what a fleet would."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: dict[str, str] = {}
        self.refusals: dict[str, tuple[str, str]] = {}

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


# --- FournosClusters ---------------------------------------------------------------------------------

GOOD = kubeconfig("https://c1.example.com")
SELECTED = {"fournos.dev/cluster-kubeconfig": "true"}


def fournos_cluster(server: Server, name: str, *, worker: bool = True, content: bytes = GOOD) -> None:
    labels = {names.OPT_IN: "true"} if worker else {}
    meta = {"name": name, "namespace": HEARTH, "labels": labels}
    server.create(FOURNOS_CLUSTER, {"metadata": meta, "spec": {"kubeconfigSecret": f"kubeconfig-{name}"}})
    secret(server, f"kubeconfig-{name}", SECRETS, content, **SELECTED)


def members(*script: Any, setup: Any) -> Scenario:
    return Scenario(fournosclusters(SETTINGS, VirtualClock()), setup, script=script, end=made)


def made(server: Server) -> Any:
    """Which workers there are, and whether their copies are those of now."""
    found = {}
    for one in server.list(MULTIKUEUE_CLUSTER):
        name = one["metadata"]["name"]
        copy = server.find(SECRET, Key(KUEUE, secret_name(name)))
        source = server.find(SECRET, Key(SECRETS, f"kubeconfig-{name}"))
        found[name] = (copy or {}).get("data") == (source or {}).get("data")
    return found, sorted(one["metadata"]["name"] for one in server.list(SECRET, namespace=KUEUE))


def one(server: Server) -> None:
    fournos_cluster(server, "c1")
    fournos_cluster(server, "c2", worker=False)


def opt_out(server: Server) -> None:
    server.patch(FOURNOS_CLUSTER, Key(HEARTH, "c1"), {"metadata": {"labels": {names.OPT_IN: None}}})


def rotate(server: Server) -> None:
    again = kubeconfig("https://c1.example.com", token="another")
    server.patch(SECRET, Key(SECRETS, "kubeconfig-c1"), {"data": encoded(again)})


def remove(server: Server) -> None:
    server.delete(FOURNOS_CLUSTER, Key(HEARTH, "c1"))


async def test_a_cluster_that_opts_in_becomes_a_worker() -> None:
    server = (await run(members(setup=one))).server
    assert made(server) == ({"c1": True}, ["fournos-c1-kubeconfig"])
    source = server.get(MULTIKUEUE_CLUSTER, Key("", "c1"))["spec"]["clusterSource"]["kubeConfig"]
    assert source == {"location": "fournos-c1-kubeconfig", "locationType": "Secret"}


@pytest.mark.parametrize(
    "script", [(rotate,), (rotate, opt_out), (remove,)], ids=["rotate", "opt out", "remove"]
)
async def test_it_follows_its_cluster_whatever_fails(script: tuple[Any, ...]) -> None:
    case = members(*script, setup=one)
    for disturbed in DISTURBED.values():
        assert await disturbed(case) > 0
    wanted = ({"c1": True}, ["fournos-c1-kubeconfig"]) if script == (rotate,) else ({}, [])
    assert made((await run(case)).server) == wanted


async def test_a_kubeconfig_that_kueue_would_refuse_is_not_copied() -> None:
    def setup(server: Server) -> None:
        fournos_cluster(server, "c1", content=GOOD.replace(b"token: t", b"tokenFile: /t"))

    assert made((await run(members(setup=setup))).server) == ({}, [])


async def test_twenty_at_most() -> None:
    def setup(server: Server) -> None:
        for number in range(22):
            fournos_cluster(server, f"c{number:02}")

    server = (
        await run(members(lambda server: server.delete(FOURNOS_CLUSTER, Key(HEARTH, "c00")), setup=setup))
    ).server
    assert sorted(made(server)[0]) == [f"c{number:02}" for number in range(1, 21)]


async def test_a_multikueuecluster_that_a_user_made_is_not_touched() -> None:
    def setup(server: Server) -> None:
        cluster(server, "c1")
        one(server)

    server = (await run(members(remove, setup=setup))).server
    assert (
        server.get(MULTIKUEUE_CLUSTER, Key("", "c1"))["spec"]["clusterSource"]["kubeConfig"]["location"]
        == "c1-secret"
    )
    assert server.list(SECRET, namespace=KUEUE) == []


@pytest.mark.looptime
async def test_a_check_gets_active_before_there_is_any_job() -> None:
    """Nothing is queued through a check that is not active: its first worker must wake it."""
    woken: list[tuple[str, Key | None]] = []
    _, workers = multikueue_controllers(
        SETTINGS, clock=VirtualClock(), wake=lambda name, key: woken.append((name, key))
    )
    workers.refuse("w1", "1", "no")
    assert woken == [("multikueue-checks", None), ("multikueue", None)], "and all Workloads look again"


def test_a_copy_belongs_to_its_worker_and_needs_no_right_to_its_finalizers() -> None:
    """The adapter's role lacks multikueueclusters/finalizers, which OpenShift requires to block deletion."""
    worker = {"metadata": {"name": "c1", "uid": "uid-c1"}}
    (owner,) = copy_metadata(worker, KUEUE, renewed=False)["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("uid-c1", True, False)
