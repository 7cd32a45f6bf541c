"""The operator of the jobs, played for tests of the schedules in the in-memory world."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.api.phase import TERMINAL
from fournos.engine.kube.resource import Key, key_of
from fournos.systems.schedules.names import SCHEDULE_UID_LABEL
from fournos.systems.schedules.part import schedules_controller
from fournos.systems.schedules.settings import ScheduleSettings
from tests.world.server import Server

NS = "fournos"
SETTINGS = ScheduleSettings(namespace=NS)
CONTROLLER = schedules_controller(SETTINGS)
KEY = Key(NS, "nightly")
HOUR = 3600.0
ENGINE = {"forge": {"project": "llmd"}}


LOCK_TEMPLATE = {
    "metadata": {"labels": {"kueue.x-k8s.io/priority-class": "fournos-lock-held"}},
    "spec": {"executionEngine": ENGINE, "exclusive": False},
}
"""A template whose jobs ask for the priority of a held lock."""


def schedule(*, name: str = "nightly", annotations: Any = None, **spec: Any) -> dict[str, Any]:
    """A schedule at 02:00; the world begins at midnight."""
    template = {"spec": {"executionEngine": ENGINE, "exclusive": False, "params": {"model": "a"}}}
    given = {"schedules": ["0 2 * * *"], "timeZone": "Etc/UTC", "jobTemplate": template}
    return {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosSchedule",
        "metadata": {"name": name, "namespace": NS, "annotations": annotations or {}},
        "spec": {"concurrencyPolicy": "Forbid", "stopAfterFailures": 5, **given, **spec},
    }


def submit(**spec: Any) -> Callable[[Server], None]:
    return lambda server: _create(server, schedule(**spec))


def _create(server: Server, made: dict[str, Any]) -> None:
    server.create(FOURNOS_SCHEDULE, made)


def edit(**spec: Any) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        server.patch(FOURNOS_SCHEDULE, KEY, {"spec": spec})

    return act


def later(server: Server) -> None:
    """It is evening: the next night is within the horizon, also for a process that dies in it."""
    server.clock.advance(20 * HOUR)


def ended_fires_are_settled(server: Server) -> bool:
    """What holds in the end even if an event was lost: no fire is active whose jobs have all ended."""
    for found in server.list(FOURNOS_SCHEDULE):
        for fire in (found.get("status") or {}).get("active") or ():
            stamp = "".join(filter(str.isdigit, fire["time"]))[:12]
            assert [job for job in jobs(server).items() if stamp in job[0] and job[1] not in TERMINAL], fire
    return True


def remove(server: Server) -> None:
    server.delete(FOURNOS_SCHEDULE, KEY)


def end(phase: str, *, only: str = "") -> Callable[[Server], None]:
    """An actor that ends each job of a schedule; `only`: those with this text in their name."""

    def act(server: Server) -> None:
        for job in server.list(FOURNOS_JOB, selector=SCHEDULE_UID_LABEL):
            if only in job["metadata"]["name"] and phase_of(job) not in TERMINAL:
                set_phase(server, key_of(job), phase)

    return act


def stop(server: Server) -> None:
    """An actor that obeys spec.shutdown."""
    for job in server.list(FOURNOS_JOB):
        if job["spec"].get("shutdown") and phase_of(job) not in TERMINAL:
            set_phase(server, key_of(job), "Stopped")


def set_phase(server: Server, key: Key, phase: str) -> None:
    server.patch(FOURNOS_JOB, key, {"status": {"phase": phase}}, subresource="status")


def phase_of(job: Any) -> str:
    return str((job.get("status") or {}).get("phase") or "")


def status(server: Server, key: Key = KEY) -> dict[str, Any]:
    found: dict[str, Any] = server.get(FOURNOS_SCHEDULE, key).get("status") or {}
    return found


def jobs(server: Server) -> dict[str, str]:
    """The jobs' phases by name."""
    return {job["metadata"]["name"]: phase_of(job) for job in server.list(FOURNOS_JOB)}


def created(server: Server) -> list[str]:
    """The names of all jobs that were ever created, in order."""
    return [
        change.object["metadata"]["name"]
        for change in server.history
        if change.resource == FOURNOS_JOB and change.type == "ADDED"
    ]


def each_once(server: Server) -> None:
    """An invariant: no job is created twice, also not after its deletion."""
    names = created(server)
    assert len(names) == len(set(names)), names


# --- cases ---------------------------------------------------------------------------------------------
# For each rule of a FournosSchedule: an object that it refuses, and one that its message recommends.
#
# One table for the check in Python (unit tests) and for a real API server (integration tests).

CREATIONS: list[tuple[str, Any, Any]] = [
    ("name-length", schedule(name="n" * 64), schedule(name="n" * 63)),
    ("schedules-dialect", schedule(schedules=["0 0 L * *"]), schedule(schedules=["0 0 28-31 * *"])),
    ("schedules-dialect", schedule(schedules=["0 2 * * 5#2"]), schedule(schedules=["0 2 8-14 * FRI"])),
    ("schedules-dialect", schedule(schedules=["@reboot"]), schedule(schedules=["@daily", "@yearly"])),
    (
        "schedules-dialect",
        schedule(schedules=["0 0 2 * * *"]),
        schedule(schedules=["*/15 8-18 * JAN-JUN 1-5"]),
    ),
    ("timezone-text", schedule(timeZone="CET "), schedule(timeZone="America/Argentina/Buenos_Aires")),
]
