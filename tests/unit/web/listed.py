"""Live jobs and recorded runs, for the list of jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from fournos.history.records import Run
from tests.history import a_run, ended
from tests.unit.client.world import NS, SPEC

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)


def job(name: str, second: int = 0, phase: str = "Running", **spec: Any) -> dict[str, Any]:
    at = BEGAN + timedelta(seconds=second)
    return {
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": f"uid-{name}",
            "creationTimestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "labels": {"team": "perf"},
        },
        "spec": {**SPEC, "owner": "ann", **spec},
        "status": {"phase": phase},
    }


def run(name: str, second: int, **fields: Any) -> Run:
    found = ended(replace(a_run(1, name=name), submitted_at=BEGAN + timedelta(seconds=second)), **fields)
    return replace(found, identity=replace(found.identity, namespace=NS, uid=f"uid-{name}"))
