"""Lives of dispatched jobs in the in-memory world: the script's events, the invariants and the comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.multikueue import names
from tests.unit.systems.multikueue import actors, workers
from tests.unit.systems.multikueue.actors import (
    fleet,
    job,
    line,
    mirrors,
    state,
    submit,
    twins,
    workload,
)
from tests.unit.systems.multikueue.workers import FOO, NS, WORKERS, at
from tests.world.harness import Scenario, in_order
from tests.world.server import Server


def runs_once(server: Server) -> None:
    """An attempt runs on one worker; two attempts of a job only if one worker was lost."""
    running = [
        (one["metadata"]["name"], one["metadata"]["annotations"][names.ATTEMPT])
        for worker in WORKERS
        for one in server.list(at(worker, FOO))
        if (one.get("status") or {}).get("phase") == "Running"
    ]
    assert len(running) == len(set(running)), f"twice: {running}"
    lost = any(
        change.resource == workers.LINE and change.object["spec"].get("down") for change in server.history
    )
    assert lost or len(running) == len({name for name, _ in running}), f"two attempts at once: {running}"


def lean(server: Server) -> None:
    """A dispatched object has no owner, no finalizer, no managedBy, and names its origin."""
    for worker in WORKERS:
        for one in server.list(at(worker, FOO), selector=f"{names.ORIGIN_LABEL}=fournos"):
            meta = one["metadata"]
            assert "managedBy" not in one["spec"] and not meta.get("finalizers")
            assert not meta.get("ownerReferences") and meta["labels"][names.PREBUILT] == "foo-a"
            assert meta["annotations"][names.PREBUILT] == "foo-a"


def foreign_stays(server: Server) -> None:
    for worker in WORKERS:
        for one in server.list(at(worker, FOO)):
            if names.ORIGIN_LABEL not in one["metadata"].get("labels", {}):
                assert one["spec"] == {"theirs": True}
        assert worker != "w2" or not _had_foreign(server) or server.find(at("w2", FOO), Key(NS, "a"))


def _had_foreign(server: Server) -> bool:
    return any(
        change.resource == at("w2", FOO) and change.object["spec"] == {"theirs": True}
        for change in server.history
    )


def secrets_of_quota(server: Server) -> None:
    """Kueue's rules for its Workload's status."""
    for one in server.list(WORKLOAD):
        status = one.get("status") or {}
        assert not (status.get("clusterName") and status.get("nominatedClusterNames"))


INVARIANTS = (runs_once, lean, foreign_stays, secrets_of_quota)


def scenario(
    *script: Callable[[Server], None], setup: Callable[[Server], None] = submit, **kwargs: Any
) -> Scenario:
    first, *others = workers.controllers(kwargs.pop("settings", workers.SETTINGS))
    return Scenario(
        first,
        in_order(fleet, setup),
        others=others,
        actors=actors.ACTORS,
        script=script,
        invariants=INVARIANTS,
        lags=range(1, 25, 3),
        **{"end": outcome, **kwargs},
    )


def outcome(server: Server) -> Any:
    """What all runs must agree on: not which of two equal workers it was, nor when."""
    found = {}
    for one in server.list(FOO, namespace=NS):
        name = one["metadata"]["name"]
        own = server.find(WORKLOAD, Key(NS, f"foo-{name}")) or {}
        status = own.get("status") or {}
        found[name] = (
            {key: value for key, value in (one.get("status") or {}).items() if key != "where"},
            (condition(own, "Finished") or {}).get("reason"),
            is_true(own, "Admitted"),
            [check["state"] for check in status.get("admissionChecks") or ()],
            bool(status.get("clusterName")),
        )
    return found, len(mirrors(server)), len(twins(server))


def finish(server: Server) -> None:
    for worker in WORKERS:
        line(server, worker, finish=True)


def evict(server: Server) -> None:
    server.patch(WORKLOAD, Key(NS, "foo-a"), {"spec": {"evict": True}})


def only_first(server: Server) -> None:
    line(server, "w2", full=True)


def on_first(server: Server) -> None:
    only_first(server)
    submit(server)


def foreign(server: Server) -> None:
    body = {"metadata": {"name": "a", "namespace": NS}, "spec": {"theirs": True}}
    server.create(at("w2", FOO), body)
    line(server, "w1", full=True)
    submit(server)


def runs_on(worker: str) -> Callable[[Server], None]:
    def check(server: Server) -> None:
        assert mirrors(server) == [(worker, "a")], (mirrors(server), twins(server))
        assert job(server)["status"] == {"phase": "Running", "where": worker, "observedGeneration": 1}
        assert workload(server)["status"]["clusterName"] == worker and state(server) == "Ready"
        assert is_true(workload(server), "Admitted")

    return check


def is_rejected(server: Server) -> None:
    assert not workload(server)["spec"]["active"] and not mirrors(server) and not twins(server)
