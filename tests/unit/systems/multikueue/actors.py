"""The other controllers on a manager cluster and its workers, and the objects at the start and the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fournos.engine.api.conditions import Condition, condition, is_true
from fournos.engine.kube.resource import (
    Key,
    Obj,
    Resource,
    controller_of,
    is_terminating,
    key_of,
    owner_reference,
)
from fournos.engine.queueing.kinds import ADMISSION_CHECK, WORKLOAD
from fournos.engine.queueing.report import release_quota
from fournos.systems.multikueue import names
from fournos.systems.multikueue.config import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG
from fournos.systems.multikueue.status import holds_quota
from tests.unit.systems.multikueue import workers
from tests.unit.systems.multikueue.workers import (
    CHECK,
    FOO,
    LINE,
    NS,
    WORKERS,
    at,
    line_of,
)
from tests.world.harness import Scenario, in_order
from tests.world.kueue import ADMITTED
from tests.world.server import Server
from tests.world.status import set_conditions

# --- the world at first ------------------------------------------------------------------------------


def fleet(server: Server, *workers: str) -> None:
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    spec = {"controllerName": names.CONTROLLER, "parameters": parameters}
    server.create(ADMISSION_CHECK, {"metadata": {"name": CHECK}, "spec": spec})
    used = list(workers or WORKERS)
    server.create(MULTIKUEUE_CONFIG, {"metadata": {"name": "all"}, "spec": {"clusters": used}})
    for name in used:
        server.create(MULTIKUEUE_CLUSTER, {"metadata": {"name": name}, "spec": {}})
    for name in WORKERS:
        server.create(LINE, {"metadata": {"name": name}, "spec": {}})


def line(server: Server, worker: str, **spec: Any) -> None:
    server.patch(LINE, Key("", worker), {"spec": spec})


def submit(
    server: Server, name: str = "a", *, managed_by: str | None = names.MULTIKUEUE, **metadata: Any
) -> None:
    meta = {"name": name, "namespace": NS, "labels": {"kueue.x-k8s.io/queue-name": "q"}, **metadata}
    server.create(FOO, {"metadata": meta, "spec": {"suspend": True, "managedBy": managed_by, "work": 1}})


# --- others at work ----------------------------------------------------------------------------------


def job_controller(server: Server) -> None:
    """On the manager: a Workload for each job; quota back when it is evicted."""
    for job in server.list(FOO, namespace=NS):
        meta = job["metadata"]
        workload = server.find(WORKLOAD, Key(NS, f"foo-{meta['name']}"))
        if workload is None and not is_terminating(job):
            labels = {"kueue.x-k8s.io/job-uid": meta["uid"]}
            own = {"namespace": NS, "labels": labels, "ownerReferences": [owner_reference(FOO, job)]}
            spec = {"queueName": "q", "podSets": [{"name": "main", "count": 1}], "active": True}
            server.create(WORKLOAD, {"metadata": {"name": f"foo-{meta['name']}", **own}, "spec": spec})
        elif workload is not None and is_true(workload, "Evicted") and is_true(workload, "QuotaReserved"):
            patch = release_quota(workload, server.clock.now())
            server.patch(WORKLOAD, key_of(workload), patch.body, subresource="status")


def kueue(server: Server) -> None:
    """On the manager: checks, quota, admission, eviction."""
    for workload in server.list(WORKLOAD, namespace=NS):
        status = workload.get("status") or {}
        if is_terminating(workload) or is_true(workload, "Finished"):
            continue
        checks = status.get("admissionChecks")
        state = checks[0]["state"] if checks else ""
        if not checks:
            pending = [{"name": CHECK, "state": "Pending", "message": ""}]
            set_conditions(server, WORKLOAD, workload, admissionChecks=pending)
        elif state == "Rejected" and workload["spec"]["active"]:
            server.patch(WORKLOAD, key_of(workload), {"spec": {"active": False}})
        elif _must_go(workload, state) and not is_true(workload, "Evicted"):
            _evict(server, workload, state)
        elif is_true(workload, "QuotaReserved"):
            if state == "Ready" and not is_true(workload, "Admitted") and not is_true(workload, "Evicted"):
                set_conditions(server, WORKLOAD, workload, Condition("Admitted", "True", "Admitted", ""))
        elif workload["spec"]["active"]:
            reserved, back = ADMITTED[0], ADMITTED[2]
            set_conditions(server, WORKLOAD, workload, reserved, back, admission={})


def _must_go(workload: Obj, state: str) -> bool:
    held = is_true(workload, "QuotaReserved")
    return held and (
        state == "Retry" or not workload["spec"]["active"] or bool(workload["spec"].get("evict"))
    )


def _evict(server: Server, workload: Obj, state: str) -> None:
    count = sum(
        one["count"] for one in (workload["status"].get("schedulingStats") or {}).get("evictions") or ()
    )
    check = workload["status"]["admissionChecks"][0]
    if state in ("Ready", "Retry"):
        check = {
            **check,
            "state": "Pending",
            "message": f"Reset to Pending after eviction. Previously: {state}",
        }
    if workload["spec"].get("evict"):
        server.patch(WORKLOAD, key_of(workload), {"spec": {"evict": None}})
    set_conditions(
        server,
        WORKLOAD,
        workload,
        Condition("Evicted", "True", "AdmissionCheck", "At least one admission check is false"),
        admissionChecks=[check],
        schedulingStats={"evictions": [{"reason": "AdmissionCheck", "count": count + 1}]},
    )


def worker_kueue(server: Server) -> None:
    for worker in WORKERS:
        able, resource = line_of(server, worker), at(worker, WORKLOAD)
        for workload in server.list(resource, namespace=NS):
            if is_terminating(workload) or is_true(workload, "Finished"):
                continue
            active = workload["spec"].get("active", True)
            if is_true(workload, "QuotaReserved"):
                if not is_true(workload, "Evicted") and (not active or able.get("evict")):
                    made_room = Condition("Evicted", "True", "Preempted", "made room")
                    set_conditions(server, resource, workload, made_room)
            elif active and not able.get("full") and not able.get("evict"):
                set_conditions(server, resource, workload, *ADMITTED)


def worker_controller(server: Server) -> None:
    """The job's controller on the workers: adopts the prebuilt Workload, runs, ends, stops."""
    for worker in WORKERS:
        jobs, workloads = at(worker, FOO), at(worker, WORKLOAD)
        for job in server.list(jobs, namespace=NS):
            prebuilt = job["metadata"].get("labels", {}).get(names.PREBUILT)
            workload = server.find(workloads, Key(NS, str(prebuilt)))
            if workload is None or is_terminating(job) or is_true(workload, "Finished"):
                continue
            phase = (job.get("status") or {}).get("phase")
            if controller_of(workload) is None:
                owners = [owner_reference(FOO, job)]
                server.patch(workloads, key_of(workload), {"metadata": {"ownerReferences": owners}})
            elif is_true(workload, "Evicted"):
                if phase == "Running":
                    _status(server, jobs, job, phase="Stopped", where=worker)
                elif holds_quota(workload):
                    shown = (
                        Condition("QuotaReserved", "False", "Pending", ""),
                        Condition("Admitted", "False", "NoReservation", ""),
                    )
                    set_conditions(server, workloads, workload, *shown)
            elif is_true(workload, "Admitted") and phase in (None, "Stopped"):
                _status(server, jobs, job, phase="Running", where=worker)
            elif phase == "Running" and line_of(server, worker).get("finish"):
                _status(server, jobs, job, phase="Succeeded", where=worker)
            elif phase == "Succeeded":
                set_conditions(
                    server, workloads, workload, Condition("Finished", "True", "Succeeded", "all done")
                )


def _status(server: Server, resource: Resource, job: Obj, **status: Any) -> None:
    seen = job["metadata"]["generation"]
    body = {"status": {**status, "observedGeneration": seen}}
    server.patch(resource, key_of(job), body, subresource="status")


ACTORS = (job_controller, kueue, worker_kueue, worker_controller)


# --- what is there -----------------------------------------------------------------------------------


def job(server: Server, name: str = "a") -> Any:
    return server.get(FOO, Key(NS, name))


def workload(server: Server, name: str = "a") -> Any:
    return server.get(WORKLOAD, Key(NS, f"foo-{name}"))


def state(server: Server, name: str = "a") -> str:
    return str(workload(server, name)["status"]["admissionChecks"][0]["state"])


def mirrors(server: Server) -> list[tuple[str, str]]:
    """Worker and name of each copy of a job."""
    return [
        (worker, one["metadata"]["name"])
        for worker in WORKERS
        for one in server.list(at(worker, FOO), selector=f"{names.ORIGIN_LABEL}=fournos")
    ]


def twins(server: Server) -> list[tuple[str, str]]:
    return [
        (worker, one["metadata"]["name"]) for worker in WORKERS for one in server.list(at(worker, WORKLOAD))
    ]


def condition_of(server: Server, type_: str) -> tuple[str, str]:
    found = condition(server.get(ADMISSION_CHECK, Key("", CHECK)), type_) or {}
    return str(found.get("status") or ""), str(found.get("reason") or "")


# --- lives ---------------------------------------------------------------------------------------------
# Lives of dispatched jobs in the in-memory world: the script's events, the invariants and the comparison.


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
        actors=ACTORS,
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
