"""fournos doctor: how it shows what it finds, and its exit code."""

from __future__ import annotations

import json

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.cli.errors import Exit
from fournos.cli.operate import view
from fournos.engine.kube.errors import ConnectionLostError, ForbiddenError
from fournos.engine.kube.resource import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, VALIDATING_WEBHOOKS
from fournos.engine.queueing.kinds import CLUSTER_QUEUE
from fournos.insight.doctor_access import DoctorFinding, Level
from tests.unit.cli.api import Program
from tests.unit.insight.healthy import Server


def test_a_healthy_cluster_has_no_fault() -> None:
    result = Program(Server())("doctor")
    assert result.exit_code == Exit.OK, result.stdout
    head, *lines = result.stdout.splitlines()
    assert head.split() == ["AREA", "WHAT", "STATE", "DETAIL"]
    assert any(line.split()[:3] == ["Versions", "client", "ok"] for line in lines)
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
    for resource in (CUSTOM_RESOURCE_DEFINITION, CONFIG_MAP, VALIDATING_WEBHOOKS, CLUSTER_QUEUE):
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
        DoctorFinding("one", Level.OK, "x", area="A"),
        DoctorFinding("two", Level.WARNING, "y", "do z", area="B"),
    ]
    assert [line.plain for line in view(findings, width=None)][1:] == [
        "A     one   ok       x",
        "B     two   warning  y",
        "  Fix: do z",
    ]
