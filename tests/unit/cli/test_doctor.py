"""fournos doctor: what it reads, how it shows it, and its exit code."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from fournos.api.kinds import FOURNOS_JOB
from fournos.cli.doctor import vault_health, view
from fournos.cli.exits import Exit
from fournos.engine.kube.errors import ConnectionLostError, ForbiddenError, NoSuchResourceError
from fournos.engine.kube.kinds import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    ENDPOINT_SLICE,
    LEASE,
    NAMESPACE,
    SELF_SUBJECT_ACCESS_REVIEW,
    VALIDATING_WEBHOOKS,
)
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from fournos.insight.doctor.facts import VaultHealth
from fournos.insight.doctor.finding import DoctorFinding, Level
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NOW, NS
from tests.unit.insight.doctor.healthy import active, authority, crds, lease, obj, webhooks


class Server(Api):
    """A healthy cluster; `refused` are the permissions, as verb and plural, that the caller lacks."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()
        self.asked: list[dict[str, Any]] = []
        groups = [{"coveredResources": ["fournos/cluster-slot"], "flavors": [{"name": "cluster-1"}]}]
        spec = {"resourceGroups": groups, "namespaceSelector": {}}
        self.add(
            LOCAL_QUEUE,
            obj("fournos-queue", namespace=NS, spec={"clusterQueue": "all"}, status=active()),
        )
        self.add(CLUSTER_QUEUE, obj("all", spec=spec, status=active()))
        self.add(RESOURCE_FLAVOR, obj("cluster-1"))
        self.add(NAMESPACE, obj(NS))
        self.add(LEASE, lease(NOW, namespace=NS))
        self.add(VALIDATING_WEBHOOKS, webhooks(authority(NOW + timedelta(days=30))))
        slice_ = {**obj("s", namespace=NS, labels={"kubernetes.io/service-name": "fournos-webhooks"})}
        self.add(ENDPOINT_SLICE, {**slice_, "endpoints": [{}]})
        for crd in crds().values():
            self.add(CUSTOM_RESOURCE_DEFINITION, crd)

    async def raw_get(self, path: str) -> bytes:
        if path == "/version":
            return b'{"gitVersion": "v1.34.4"}'
        if path.startswith("/apis/"):
            raise NoSuchResourceError("404 page not found", status=404)
        assert path == "/apis"
        served = {"fournos.dev": "v1", "kueue.x-k8s.io": "v1beta2", "tekton.dev": "v1"}
        groups = [{"name": name, "versions": [{"version": version}]} for name, version in served.items()]
        return json.dumps({"groups": groups}).encode()

    async def server_time(self) -> datetime | None:
        return NOW

    async def create(self, resource: Resource, body: Obj, *, dry_run: bool = False) -> Obj:
        assert resource is SELF_SUBJECT_ACCESS_REVIEW
        asked = body["spec"]["resourceAttributes"]
        self.asked.append(asked)
        return {"status": {"allowed": f"{asked['verb']} {asked['resource']}" not in self.refused}}


def test_a_healthy_cluster_has_no_fault() -> None:
    result = Program(Server())("doctor")
    assert result.exit_code == Exit.OK, result.stdout
    head, *lines = result.stdout.splitlines()
    assert head.split() == ["AREA", "WHAT", "STATE", "DETAIL"]
    assert any(line.split()[:3] == ["Clocks", "local", "clock"] for line in lines)
    assert result.stderr.startswith("0 faults, ")


def test_a_fault_is_shown_with_its_fix_and_ends_with_1() -> None:
    server = Server()
    server.refused = {"create fournosjobs"}
    result = Program(server)("doctor")
    assert result.exit_code == Exit.FAILED
    lines = result.stdout.splitlines()
    (index,) = [number for number, line in enumerate(lines) if "  fault  " in line]
    assert "you may not create" in lines[index]
    assert lines[index + 1].startswith("  Fix: ask an administrator")
    assert result.stderr.startswith("1 fault, ")


def test_a_warning_is_no_fault() -> None:
    server = Server()
    server.refused = {"list workloads"}
    assert Program(server)("doctor").exit_code == Exit.OK


def test_json() -> None:
    result = Program(Server())("doctor", "-o", "json")
    found = json.loads(result.stdout)
    assert {"area", "what", "level", "text", "fix"} == set(found[0])
    assert {"area": "Versions", "what": "Kubernetes", "level": "ok", "text": "v1.34.4", "fix": ""} in found


def test_rights_are_asked_in_the_namespaces_of_the_commands() -> None:
    server = Server()
    Program(server, env={"HEARTH_NAMESPACE": "stove"})("doctor", "-n", "team")
    places = {(one["resource"], one.get("namespace")) for one in server.asked}
    assert {("fournosjobs", "team"), ("fournosclusters", "stove"), ("clusterqueues", None)} <= places
    assert {"group": "", "resource": "pods", "verb": "get", "namespace": "team", "subresource": "log"} in (
        server.asked
    )


def test_what_may_not_be_read_is_unknown() -> None:
    server = Server()
    for resource in (
        CUSTOM_RESOURCE_DEFINITION,
        CONFIG_MAP,
        VALIDATING_WEBHOOKS,
        CLUSTER_QUEUE,
        ENDPOINT_SLICE,
    ):
        server.fails["*", resource] = ForbiddenError("no", status=403)
    result = Program(server)("doctor", "-o", "json")
    assert result.exit_code == Exit.OK
    unknown = {one["area"] for one in json.loads(result.stdout) if one["level"] == "unknown"}
    assert {"CRDs", "Kueue", "Queues", "Webhooks"} <= unknown


def test_without_an_api_server_it_is_the_error_of_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(self: Server, path: str) -> bytes:
        raise ConnectionLostError("refused")

    monkeypatch.setattr(Server, "raw_get", lost)
    result = Program(Server())("doctor")
    assert result.exit_code == Exit.SERVER
    assert "check the network" in result.stderr


def test_it_changes_nothing() -> None:
    server = Server()
    Program(server)("doctor")
    assert server.writes == []
    assert all(FOURNOS_JOB.kind not in str(one.get("kind")) for one in server.asked)


def test_fixes_stand_below_their_finding() -> None:
    findings = [
        DoctorFinding("A", "one", Level.OK, "x"),
        DoctorFinding("B", "two", Level.WARNING, "y", "do z"),
    ]
    assert [line.plain for line in view(findings, width=None)][1:] == [
        "A     one   ok       x",
        "B     two   warning  y",
        "  Fix: do z",
    ]


# --- Vault -------------------------------------------------------------------------------------------


async def test_vault_is_asked_without_a_token() -> None:
    seen = []

    async def health(request: web.Request) -> web.Response:
        seen.append((request.path, dict(request.headers)))
        return web.Response(status=503)

    app = web.Application()
    app.router.add_get("/v1/sys/health", health)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    try:
        assert await vault_health(address) == VaultHealth(address, 503)
    finally:
        await runner.cleanup()
    assert [path for path, _ in seen] == ["/v1/sys/health"]
    assert "X-Vault-Token" not in seen[0][1]
    assert await vault_health(address) == VaultHealth(address, 0)
    assert await vault_health("") is None
