"""The schedule of `make demo`: a benchmark each hour, for the first time within seconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dev import resources
from devcluster import Cluster
from fournos.api.kinds import FOURNOS_SCHEDULE

NAME: Final = "hourly"
_NOTICE: Final = timedelta(seconds=15)
"""Minimum time between the creation and the first run: it is to be seen in the list before."""


def deploy(cluster: Cluster, namespace: str) -> None:
    """Applies the schedule.  A later demonstration moves it, so that its next run is seconds away again."""
    resources.apply(cluster, [schedule(namespace, datetime.now(UTC))])


def schedule(namespace: str, now: datetime) -> dict[str, Any]:
    """Returns a schedule that runs at the next full minute, 15 to 75 s from now, and then each hour.

    It asks for one GPU, so that its runs are a series of their own beside the demonstration's.
    """
    (sample,) = resources.load("dev/sample-job.yaml")
    spec = {**sample["spec"], "displayName": "each hour"}
    spec["hardware"] = {**spec["hardware"], "gpuCount": 1}
    minute = (now + _NOTICE + timedelta(minutes=1)).minute
    return {
        "apiVersion": FOURNOS_SCHEDULE.api_version,
        "kind": FOURNOS_SCHEDULE.kind,
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "schedules": [f"{minute} * * * *"],
            "timeZone": "Etc/UTC",
            "jobTemplate": {"spec": spec},
        },
    }
