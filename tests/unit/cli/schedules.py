"""FournosSchedules as a cluster has them, and their jobs."""

from __future__ import annotations

from typing import Any

import yaml

from fournos.systems.schedules.names import SCHEDULE_UID_LABEL
from tests.unit.cli.objects import NS, ago, job

JOB = """\
apiVersion: fournos.dev/v1
kind: FournosJob
metadata:
  generateName: nightly-
  labels: {team: perf}
spec:
  cluster: cluster-1
  executionEngine:
    forge:
      project: llmd
"""


def schedule(name: str = "nightly", *, status: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosSchedule",
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": ago(days=3),
        },
        "spec": {
            "schedules": ["0 2 * * *"],
            "timeZone": "Europe/Berlin",
            "jobTemplate": {"spec": yaml.safe_load(JOB)["spec"]},
            "concurrencyPolicy": "Forbid",
            **spec,
        },
        "status": {
            "lastStartTime": "2030-01-01T01:00:00Z",
            "lastScheduleTime": "2030-01-01T01:00:00Z",
            "nextTime": "2030-01-02T01:00:00Z",
            "lastFire": {"time": "2030-01-01T01:00:00Z", "outcome": "Succeeded"},
            **(status or {}),
        },
    }


def child(name: str, phase: str, of: str = "nightly") -> dict[str, Any]:
    return job(name, phase, labels={SCHEDULE_UID_LABEL: f"uid-{of}"})
