"""Pairs of features: each way to run a job with each two of what can be asked of it.

The world harness runs each pair once, undisturbed; what must hold is looked at after every change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.api.phase import HOLDING, TERMINAL
from fournos.engine.api.conditions import Condition, condition, is_true
from fournos.engine.api.values import format_time, parse_time
from fournos.engine.kube.resource import JOB, Key, Obj, controller_of, key_of, uid_of
from fournos.engine.queueing.job import MULTIKUEUE
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.jobs import names
from fournos.systems.jobs.part import jobs_controller
from fournos.systems.jobs.settings import JobSettings
from tests.unit.systems.jobs.actors import NS, TEMPLATE, Kueue, Resolver, Tekton, edit, environment, submit
from tests.world.harness import Action, Scenario, run
from tests.world.server import Server
from tests.world.status import set_conditions

SETTINGS = JobSettings(namespace=NS, history_enabled=True)
SHARED: Mapping[str, Any] = {"cluster": None, "exclusive": False}
LOCK: Mapping[str, Any] = {"lockOnly": True, "executionEngine": None}
GPUS = {"gpuType": "h200", "gpuCount": 1, "alternatives": [{"gpuType": "a100", "gpuCount": 2}]}
MODES: Mapping[str, Mapping[str, Any]] = {
    "cluster": {"exclusive": False, "hardware": {"gpuType": "a100", "gpuCount": 1}},
    "exclusive": {},
    "lock": LOCK,
    "clusterless": {**SHARED, "clusterless": True},
    "GPU types in order": {**SHARED, "hardware": GPUS},
    "dispatched": {"managedBy": MULTIKUEUE},
}
FIRST_RUN = "job"


@dataclass(frozen=True)
class Feature:
    spec: Mapping[str, Any] = field(default_factory=dict)
    script: tuple[Action, ...] = ()
    fails: bool = False
    """The first run fails."""
    endless: bool = False
    """The first run ends only when it is cancelled."""
    evicted: bool = False
    in_vain: bool = False
    """No cluster ever has room."""
    pruned: bool = False
    """Each run is deleted as soon as it has ended."""
    start: bool = False
    """There is a start time, an hour away."""


def until_the_start(server: Server) -> None:
    server.clock.advance(3700)


FEATURES: Mapping[str, Feature] = {
    "start time": Feature(script=(until_the_start,), start=True),
    "retry": Feature({"retry": {"limit": 1, "backoff": "1s"}}, fails=True),
    "suspended at creation": Feature({"suspend": True}, (edit(suspend=False),)),
    "suspended while it runs": Feature(script=(edit(suspend=True), edit(suspend=False)), endless=True),
    "suspended and stopped": Feature({"suspend": True}, (edit(shutdown="Stop"),)),
    "ttl": Feature({"ttl": "30m"}),
    "timeout of the wait": Feature({"timeouts": {"pending": "30m"}}),
    "waits in vain": Feature({"timeouts": {"pending": "10m"}}, in_vain=True),
    "timeouts of the run": Feature({"timeouts": {"pipeline": "2h", "tasks": "1h", "finally": "1h"}}),
    "confirm": Feature({"confirm": {"repeats": 1}}),
    "pruner": Feature(pruned=True),
    "eviction": Feature(evicted=True, endless=True),
    "stop": Feature(script=(edit(shutdown="Stop"),), endless=True),
}
PAIRS = [*((name,) for name in FEATURES), *combinations(FEATURES, 2)]


def historian(server: Server) -> None:
    """Records what has ended, and suspects the results that are to be compared."""
    for job in server.list(FOURNOS_JOB):
        status = job.get("status") or {}
        if status.get("phase") not in TERMINAL or "archivedAt" in status:
            continue
        wrote = {"archivedAt": format_time(server.clock.now())}
        if (condition(job, names.RERUNS_CREATED) or {}).get("status") == "Unknown":
            wrote["suspectedAt"] = wrote["archivedAt"]
        server.patch(FOURNOS_JOB, key_of(job), {"status": wrote}, subresource="status")


def worker(server: Server) -> None:
    """The worker cluster of a dispatched job: it follows the Workload, one change a round."""
    for job in server.list(FOURNOS_JOB):
        workload = next((one for one in server.list(WORKLOAD) if _of(one, job)), None)
        if job["spec"].get("managedBy") != MULTIKUEUE or workload is None:
            continue
        status = job.get("status") or {}
        if is_true(workload, "Admitted") and not is_true(workload, "Evicted") and not status.get("phase"):
            running = {"phase": "Running", "cluster": "cluster-1", "attempt": 1}
            server.patch(FOURNOS_JOB, key_of(job), {"status": running}, subresource="status")
        elif status.get("phase") == "Running" and not is_true(workload, "Finished"):
            ended = {"phase": "Succeeded", "phaseTimes": {"finished": format_time(server.clock.now())}}
            server.patch(FOURNOS_JOB, key_of(job), {"status": ended}, subresource="status")
            set_conditions(
                server,
                WORKLOAD,
                workload,
                Condition("Finished", "True", "Succeeded", "ended"),
                admission=None,
            )
        else:
            continue
        return


def _of(obj: Obj, job: Obj) -> bool:
    return (controller_of(obj) or {}).get("uid") == uid_of(job)


# --- what must hold ------------------------------------------------------------------------------------


def always(server: Server) -> None:
    for job in server.list(FOURNOS_JOB):
        workloads = [one for one in server.list(WORKLOAD) if _of(one, job)]
        runs = [one for one in server.list(PIPELINE_RUN) if _of(one, job)]
        live = [one for one in runs if not (one.get("status") or {}).get("completionTime")]
        assert len(live) <= 1, "one run at a time"
        _asks_for_what_it_names(job, workloads, runs)
        _starts_in_time(server, job, workloads, runs)
        if job["spec"].get("managedBy") == MULTIKUEUE:
            assert not runs and not server.list(JOB), "another cluster runs it"
        else:
            _status_is_true(job, live)


def _asks_for_what_it_names(job: Obj, workloads: list[Obj], runs: list[Obj]) -> None:
    spec, cluster = job["spec"], job["spec"].get("cluster")
    if spec.get("clusterless"):
        assert not workloads, "a clusterless job has no Workload"
        assert {one["metadata"]["annotations"][names.CLUSTER_ANNOTATION] for one in runs} <= {""}
        return
    for workload in workloads:
        pod = workload["spec"]["podSets"][0]["template"]["spec"]
        slots = pod["containers"][0]["resources"]["requests"][names.SLOT_RESOURCE]
        whole = spec.get("exclusive", True) or spec.get("lockOnly")
        assert int(slots) == (names.SLOTS_PER_CLUSTER if whole else 1)
        admission = (workload.get("status") or {}).get("admission") or {"podSetAssignments": [{}]}
        flavors = set((admission["podSetAssignments"][0].get("flavors") or {}).values())
        assert not cluster or flavors <= {cluster}, "quota of the named cluster only"
    if spec.get("lockOnly"):
        assert not runs, "a lock runs nothing"
    for run_ in runs:
        where = run_["metadata"]["annotations"][names.CLUSTER_ANNOTATION]
        assert where and where == (cluster or where)


def _starts_in_time(server: Server, job: Obj, workloads: list[Obj], runs: list[Obj]) -> None:
    start_at = job["spec"].get("scheduledStartTime")
    if start_at and server.clock.now() < parse_time(start_at):
        assert not workloads and not runs, "it is queued before its start time"


def _status_is_true(job: Obj, live: list[Obj]) -> None:
    """The fields and the conditions of one status agree with each other."""
    status = job.get("status") or {}
    phase = status.get("phase")
    stated = {one["type"]: (one["status"], one["reason"]) for one in status.get("conditions") or ()}
    if phase == "Pending":
        assert not status.get("cluster"), "a waiting job has no cluster"
        assert stated.get("WorkloadAdmitted", ("False", ""))[0] == "False"
        assert stated.get("PipelineRunReady", ("False", ""))[0] == "False"
        assert not status.get("stopRequestedAt")
    else:
        assert not status.get("retryAt") and not status.get("waiting")
        assert stated.get("Suspended", ("False", ""))[0] == "False", "only a waiting job is suspended"
    if phase in HOLDING:
        number = status["attempt"]
        assert status["attempts"][-1]["number"] == number and not status["attempts"][-1].get("outcome")
        assert status.get("pipelineRun") in (None, status["attempts"][-1].get("pipelineRun"))
    if phase in TERMINAL:
        assert not live and not status.get("stopRequestedAt")
        assert stated.get("PipelineRunReady", ("False", ""))[0] != "Unknown"
        assert not status.get("attempts") or status["attempts"][-1].get("outcome")
    if phase == "Succeeded" and not job["spec"].get("lockOnly"):
        assert stated["PipelineRunReady"][0] == "True"


def at_rest(server: Server) -> None:
    """What holds when nobody has anything to do."""
    for job in server.list(FOURNOS_JOB):
        spec, status, meta = job["spec"], job.get("status") or {}, job["metadata"]
        workloads = [one for one in server.list(WORKLOAD) if _of(one, job)]
        holding = [one for one in workloads if is_true(one, "QuotaReserved") and not is_true(one, "Finished")]
        runs = [one for one in server.list(PIPELINE_RUN) if _of(one, job)]
        live = [one for one in runs if not (one.get("status") or {}).get("completionTime")]
        if spec.get("managedBy") != MULTIKUEUE:
            suspended = bool(spec.get("suspend")) and status.get("phase") not in TERMINAL
            assert is_true(job, "Suspended") == suspended, "a condition is false when its field is"
            assert status["observedGeneration"] == meta["generation"] or status["phase"] in TERMINAL
        if spec.get("lockOnly"):
            raised = [one["spec"].get("priority") == names.LOCK_PRIORITY for one in workloads]
            assert raised == [one in holding for one in workloads], "a held lock is pushed out by nobody"
        if spec.get("suspend") or spec.get("shutdown"):
            assert not holding and not live, "what is held back holds nothing"
        if status.get("phase") in TERMINAL:
            assert not holding and not live and not meta.get("finalizers"), "an ended job holds nothing"
            assert not [one for one in runs if one["metadata"].get("finalizers")]
            assert spec.get("managedBy") or not workloads
            assert not is_true(job, "Suspended")


def scenario(mode: str, pair: tuple[str, ...]) -> Scenario:
    features = [FEATURES[name] for name in pair]
    spec = {name: value for feature in features for name, value in feature.spec.items()}
    if all("timeouts" in feature.spec for feature in features):  # of two the later feature counts
        spec["timeouts"] = {name: text for one in features for name, text in one.spec["timeouts"].items()}

    def begin(server: Server) -> None:
        environment(server)
        start_at = {}
        if any(feature.start for feature in features):
            start_at = {"scheduledStartTime": format_time(server.clock.now() + timedelta(hours=1))}
        submit(server, **{**MODES[mode], **spec, **start_at})

    def checked(action: Action) -> Action:
        def act(server: Server) -> None:
            at_rest(server)
            if server.find(FOURNOS_JOB, Key(NS, "job")):
                action(server)

        return act

    evicts = any(feature.evicted for feature in features) and mode != "clusterless"

    slots = {"cluster-1": 0, "cluster-2": 0} if any(feature.in_vain for feature in features) else None

    def kueue() -> Kueue:
        if slots:
            return Kueue(slots=slots)
        return Kueue(evict=[(FIRST_RUN, "Preempted")] if evicts else [])

    def tekton() -> Tekton:
        return Tekton(
            fails={FIRST_RUN} if any(feature.fails for feature in features) else set(),
            endless={FIRST_RUN} if evicts or any(f.endless and f.script for f in features) else set(),
            prunes=any(feature.pruned for feature in features),
            pods=True,
        )

    return Scenario(
        jobs_controller(SETTINGS, TEMPLATE),
        begin,
        (historian, worker),
        [checked(action) for feature in features for action in feature.script],
        cast=(Resolver, kueue, tekton),
        invariants=(always,),
        horizon=900.0,
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
async def test_a_pair_of_features(mode: str, pair: tuple[str, ...]) -> None:
    done = await run(scenario(mode, pair))
    at_rest(done.server)
    job = done.server.find(FOURNOS_JOB, Key(NS, "job"))
    assert job is not None, "its ttl is not over"
    phase = (job.get("status") or {}).get("phase")
    assert phase == ending(mode, frozenset(pair)), (job.get("status") or {}).get("message")
    if "confirm" in pair and phase == "Succeeded" and mode != "dispatched":
        assert len(done.server.list(FOURNOS_JOB)) == 2, "a suspected regression is measured again"


def ending(mode: str, pair: frozenset[str]) -> str | None:
    """Returns the phase of the job when all has been done, in the order of the features."""
    if mode == "dispatched":  # its runs are endless for the worker only
        if "waits in vain" in pair:
            return None  # its manager does not end it, nor does anybody else
        resumed = {"suspended at creation", "suspended while it runs"} & pair
        return None if "suspended and stopped" in pair and not resumed else "Succeeded"
    if "waits in vain" in pair and mode != "clusterless":
        stopped_before = "suspended and stopped" in pair and "suspended at creation" not in pair
        return "Stopped" if stopped_before and "suspended while it runs" not in pair else "Failed"
    again = {"suspended while it runs", *(("eviction",) if mode != "clusterless" else ())}
    stopped = "stop" in pair and (mode == "lock" or not again & pair)
    held = "suspended and stopped" in pair and (mode == "lock" or "suspended at creation" not in pair)
    if stopped or held:
        return "Stopped"
    return "Admitted" if mode == "lock" else "Succeeded"
