"""Things of the operator that wait for a time of the wall clock: how each is made, waits, and is over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bench.rig import NAMESPACE, job
from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.engine.api.conditions import condition
from fournos.engine.api.times import format_time
from fournos.engine.kube.resource import Obj, Resource

_NEVER_ADMITTED: Final = 200_000
"""More GPUs than the benchmark's queue has."""
_NOT_BEFORE: Final = "NotBefore"


@dataclass(frozen=True, slots=True)
class Waiting:
    """One kind of such things."""

    resource: Resource
    body: Callable[[str, int], Obj]
    """Of the name, and the seconds from the begin of the wait to its end."""
    waits: Callable[[Obj], bool]
    over: Callable[[Obj | None], bool]
    """Of the object, None if it is gone; only asked for what has waited."""


def _job(name: str, **spec: Any) -> Obj:
    body = job(name)
    body["spec"].update(spec)
    return body


def _ttl(seconds: int) -> str:
    """Times to live have no seconds, so that only whole minutes are waited for."""
    return f"{seconds // 60}m"


def _starting(name: str, seconds: int) -> Obj:
    return _job(name, scheduledStartTime=format_time(datetime.now(UTC) + timedelta(seconds=seconds)))


def _pending(name: str, seconds: int) -> Obj:
    body = _job(name, timeouts={"pending": f"{seconds}s"})
    body["spec"]["hardware"]["gpuCount"] = _NEVER_ADMITTED
    return body


def _locked(name: str, seconds: int) -> Obj:
    return {
        "apiVersion": "fournos.dev/v1",
        "kind": FOURNOS_CLUSTER.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"kubeconfigSecret": f"kubeconfig-{name}", "owner": "bench", "ttl": _ttl(seconds)},
    }


def _status(obj: Obj | None) -> dict[str, Any]:
    return dict((obj or {}).get("status") or {})


def _not_before(obj: Obj | None) -> bool:
    return obj is not None and (condition(obj, "WorkloadAdmitted") or {}).get("reason") == _NOT_BEFORE


KINDS: Final = {
    "ttl": Waiting(
        FOURNOS_JOB,
        lambda name, seconds: _job(name, ttl=_ttl(seconds)),
        lambda obj: _status(obj).get("phase") == "Succeeded",
        lambda obj: obj is None,
    ),
    "retry": Waiting(
        FOURNOS_JOB,
        lambda name, seconds: _job(name, retry={"limit": 1, "backoff": f"{seconds}s"}),
        lambda obj: bool(_status(obj).get("retryAt")),
        lambda obj: not _status(obj).get("retryAt"),
    ),
    "deadline": Waiting(
        FOURNOS_JOB,
        _pending,
        lambda obj: _status(obj).get("phase") == "Pending",
        lambda obj: _status(obj).get("phase") == "Failed",
    ),
    "start": Waiting(FOURNOS_JOB, _starting, _not_before, lambda obj: not _not_before(obj)),
    "lock": Waiting(
        FOURNOS_CLUSTER,
        _locked,
        lambda obj: bool(_status(obj).get("lockExpiresAt")),
        lambda obj: not ((obj or {}).get("spec") or {}).get("owner"),
    ),
}


def every_minute(name: str) -> Obj:
    """Returns a FournosSchedule that creates a job each minute."""
    return {
        "apiVersion": "fournos.dev/v1",
        "kind": FOURNOS_SCHEDULE.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "schedules": ["* * * * *"],
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Allow",
            "jobTemplate": {"spec": job(name)["spec"]},
        },
    }
