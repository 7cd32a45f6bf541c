"""Statuses of pods and their containers, written as the kubelet and the Job controller would."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import JOB, POD, Key, key_of
from tests.unit.systems.miniclusters.actors import NS
from tests.world.server import Server


def container(name: str, code: int | None = None, *, ready: bool = True, message: str = "") -> dict[str, Any]:
    """The status of a container that runs, or that has ended with this code."""
    if code is None:
        return {"name": name, "ready": ready, "state": {"running": {}}}
    ended = {"exitCode": code, "message": message, "finishedAt": "2026-01-01T00:00:00Z"}
    return {"name": name, "ready": False, "state": {"terminated": ended}}


def status(phase: str, *containers: dict[str, Any], ready: bool = False) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {"phase": phase, "containerStatuses": list(containers), "conditions": conditions}


def set_status(index: int, found: dict[str, Any]) -> Any:
    def act(server: Server) -> None:
        server.patch(POD, Key(NS, f"flux-{index}"), {"status": found}, subresource="status")

    return act


def completed(server: Server, *, at: datetime, message: str = "") -> None:
    """Worker 1 has ended well at this time, and is not run again."""
    (job,) = server.list(JOB)
    server.patch(JOB, key_of(job), {"status": {"completedIndexes": "1"}}, subresource="status")
    ended = container("flux", 0, message=message)
    ended["state"]["terminated"]["finishedAt"] = format_time(at)
    set_status(1, status("Succeeded", ended))(server)
