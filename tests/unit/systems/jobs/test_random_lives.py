"""Random lives: users, Kueue, Tekton, crashes, old views and thieves at any moment; what must hold always.

Hypothesis shortens a life that breaks a rule to the few moves that matter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.api.phase import HOLDING, TERMINAL
from fournos.engine.api.conditions import Condition, condition, is_true
from fournos.engine.kube.resource import JOB, POD, SECRET, Key, Obj, controller_of, key_of, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.jobs import names
from fournos.systems.jobs.part import jobs_controller
from tests.unit.systems.jobs.actors import (
    NS,
    SETTINGS,
    TEMPLATE,
    Kueue,
    Resolver,
    Tekton,
    environment,
    submit,
)
from tests.world.harness import run_to_quiescence
from tests.world.process import NEVER, Process
from tests.world.server import Server, VirtualClock
from tests.world.status import set_conditions

SHARED = {"cluster": None, "exclusive": False, "hardware": {"gpuType": "a100", "gpuCount": 2}}
JOBS: dict[str, dict[str, Any]] = {
    "alone": {},
    "alone-too": {"retry": {"limit": 1}},
    "shared": SHARED,
    "pinned": {**SHARED, "cluster": "cluster-1"},
}
RUNS = st.sets(st.sampled_from([f"{job}{suffix}" for job in JOBS for suffix in ("", "-r2", "-r3")]))
CHILDREN = (WORKLOAD, PIPELINE_RUN, JOB, SECRET, POD)


class Lives(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.server = Server(VirtualClock())
        environment(self.server)
        self.given = {uid_of(secret) for secret in self.server.list(SECRET)}
        self.resolver, self.kueue = Resolver(), Kueue()
        self.ended: dict[str, str] = {}
        """UID of a job -> its terminal phase."""
        self.generations: dict[str, int] = {}
        """UID of a job -> the last observedGeneration."""
        self.robbed: dict[str, int] = {}
        """UID of a job whose Workload a stranger deleted -> the last attempt that this can have hit: until
        its run has stopped quota is overbooked, and no operator can help it."""

    @initialize(
        jobs=st.sets(st.sampled_from(sorted(JOBS)), min_size=1),
        lag=st.integers(0, 4),
        fails=RUNS,
        endless=RUNS,
        deaf=RUNS,
    )
    def begin(self, jobs: set[str], lag: int, fails: set[str], endless: set[str], deaf: set[str]) -> None:
        for name in sorted(jobs):
            submit(self.server, name, **JOBS[name])
        self.lag = lag
        self.tekton = Tekton(fails=fails, endless=endless, deaf=deaf, pods=True)
        self.process = self._process()

    def teardown(self) -> None:
        """Whatever happened: it comes to rest, and nothing remains of a deleted job."""
        if not hasattr(self, "process"):
            self.runner.close()
            return
        try:
            self._rest()
            for job in self.server.list(FOURNOS_JOB):
                if job["spec"].get("suspend") or (job.get("status") or {}).get("phase") in TERMINAL:
                    continue
                live = [run for run in self._live() if _owner(run) == uid_of(job)]
                assert live or self._waits(job), f"{job['metadata']['name']} is lost: {job.get('status')}"
            for job in self.server.list(FOURNOS_JOB):
                self.server.delete(FOURNOS_JOB, key_of(job))
            self._rest()
            assert self.server.list(FOURNOS_JOB) == []
            left = [
                obj for kind in CHILDREN for obj in self.server.list(kind) if uid_of(obj) not in self.given
            ]
            assert left == [], "something remains of deleted jobs"
        finally:
            self.runner.close()

    # --- the operator --------------------------------------------------------------------------------

    @rule(passes=st.integers(1, 6))
    def works(self, passes: int) -> None:
        for _ in range(passes):
            self.process.deliver()
            self.runner.run(self.process.step())
            self._look()

    @rule()
    def crashes(self) -> None:
        self.process = self._process()

    @rule()
    def time_passes(self) -> None:
        due = self.process.next_timer()
        if due != NEVER:
            self.server.clock.advance(max(0.0, due - self.server.clock.monotonic()))
            self.process.fire_timers()

    @rule()
    def sees_all(self) -> None:
        while self.process.deliver(at_least=1):
            pass

    # --- the others ----------------------------------------------------------------------------------

    @rule(moves=st.lists(st.sampled_from(("resolver", "kueue", "tekton")), min_size=1, max_size=4))
    def actors_work(self, moves: list[str]) -> None:
        for move in moves:
            getattr(self, move)(self.server)

    @rule()
    def garbage_is_collected(self) -> None:
        self.server.collect_garbage()

    @rule(reason=st.sampled_from(("Preempted", "PodsReadyTimeout")), data=st.data())
    def kueue_evicts(self, reason: str, data: st.DataObject) -> None:
        admitted = [
            w for w in self.server.list(WORKLOAD) if is_true(w, "Admitted") and not is_true(w, "Evicted")
        ]
        if admitted:
            workload = data.draw(st.sampled_from(admitted))
            set_conditions(self.server, WORKLOAD, workload, Condition("Evicted", "True", reason, "evicted"))

    @rule(kind=st.sampled_from((WORKLOAD, PIPELINE_RUN, JOB)), data=st.data())
    def another_client_deletes_a_child(self, kind: Any, data: st.DataObject) -> None:
        children = self.server.list(kind)
        if children:
            child = data.draw(st.sampled_from(children))
            if kind is WORKLOAD:
                self._note_theft(_owner(child))
            self.server.delete(kind, key_of(child))
            pod = Key(NS, f"{child['metadata']['name']}-pod")
            if kind is PIPELINE_RUN and self.server.find(POD, pod):
                self.server.delete(POD, pod)  # a run that is deleted while Admitted is made again at once

    # --- users ---------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(sorted(JOBS)))
    def user_submits(self, name: str) -> None:
        if self.server.find(FOURNOS_JOB, Key(NS, name)) is None:
            submit(self.server, name, **JOBS[name])

    @rule(data=st.data(), what=st.sampled_from(("Stop", "Terminate", "delete", "suspend", "resume")))
    def user_acts(self, data: st.DataObject, what: str) -> None:
        jobs = self.server.list(FOURNOS_JOB)
        if not jobs:
            return
        job = data.draw(st.sampled_from(jobs))
        key, spec = key_of(job), job["spec"]
        if what == "delete":
            self.server.delete(FOURNOS_JOB, key)
        elif what in ("suspend", "resume"):
            self.server.patch(FOURNOS_JOB, key, {"spec": {"suspend": what == "suspend"}})
        elif spec.get("shutdown") != "Terminate":  # a rule of the CRD: never back to Stop
            self.server.patch(FOURNOS_JOB, key, {"spec": {"shutdown": what}})

    # --- what must hold ------------------------------------------------------------------------------

    @invariant()
    def _look(self) -> None:
        if not hasattr(self, "process"):
            return
        jobs = {uid_of(job): job for job in self.server.list(FOURNOS_JOB)}
        live = self._live()
        self._quota_covers_runs(live)
        self._clusters_are_not_overbooked(live, jobs)
        for uid, job in jobs.items():
            status = job.get("status") or {}
            phase, seen = str(status.get("phase") or ""), int(status.get("observedGeneration") or 0)
            attempts = [run["metadata"]["name"] for run in live if _owner(run) == uid]
            assert len(attempts) <= 1, f"more than one attempt is live: {attempts}"
            assert self.ended.get(uid, phase) == phase, f"{self.ended[uid]} became {phase}"
            assert self.generations.get(uid, 0) <= seen, "observedGeneration went back"
            self.generations[uid] = seen
            if phase in TERMINAL:
                assert not attempts, f"{phase}, and {attempts} is live"
                assert not [w for w in self.server.list(WORKLOAD) if _owner(w) == uid], (
                    "over, and holds quota"
                )
                if uid not in self.ended:
                    event(f"{phase}: {status['message'][:25]}")
                self.ended[uid] = phase

    def _quota_covers_runs(self, live: list[Obj]) -> None:
        holding = {_owner(w) for w in self.server.list(WORKLOAD) if is_true(w, "QuotaReserved")}
        for run in live:
            if not self._robbed_of_quota(run):
                assert _owner(run) in holding, f"{key_of(run)} runs without quota"

    def _clusters_are_not_overbooked(self, live: list[Obj], jobs: Mapping[str, Obj]) -> None:
        for cluster, quota in Kueue().slots.items():
            runs = [
                run
                for run in live
                if run["metadata"]["annotations"]["fournos.dev/cluster"] == cluster
                and not self._robbed_of_quota(run)
                and _owner(run) in jobs
            ]
            used = sum(100 if jobs[_owner(run)]["spec"].get("exclusive") else 1 for run in runs)
            assert used <= quota, f"{cluster} is overbooked: {[key_of(run) for run in runs]}"

    def _robbed_of_quota(self, run: Obj) -> bool:
        attempt = int(run["metadata"]["labels"][names.ATTEMPT_LABEL])
        return attempt <= self.robbed.get(_owner(run), 0)

    # --- help ----------------------------------------------------------------------------------------

    def _process(self) -> Process:
        return Process(self.server, jobs_controller(SETTINGS, TEMPLATE), lag=self.lag)

    def _note_theft(self, uid: str) -> None:
        job = next((job for job in self.server.list(FOURNOS_JOB) if uid_of(job) == uid), None)
        status = (job or {}).get("status") or {}
        begun = int(status.get("attempt") or 0)
        self.robbed[uid] = begun if status.get("phase") in HOLDING else begun + 1

    def _live(self) -> list[Obj]:
        return [
            run
            for run in self.server.list(PIPELINE_RUN)
            if not (run.get("status") or {}).get("completionTime")
        ]

    def _waits(self, job: Obj) -> bool:
        """In the queue, behind a job that runs for ever."""
        workload = next((w for w in self.server.list(WORKLOAD) if _owner(w) == uid_of(job)), None)
        return workload is not None and (condition(workload, "QuotaReserved") or {}).get("status") == "False"

    def _rest(self) -> None:
        actors = (self.resolver, self.kueue, self.tekton)

        def look(_: Server) -> None:
            self._look()

        self.runner.run(
            run_to_quiescence(self.process, actors, invariants=(look,), horizon=86400.0, max_steps=5000)
        )
        # A waiting job names who holds its cluster, as of its last look: a first look may write news.
        for _ in range(2):
            writes = len(self.process.api.writes)
            self.process.wake_all()
            self.runner.run(run_to_quiescence(self.process, actors, invariants=(look,), horizon=86400.0))
        assert self.process.api.writes[writes:] == [], "writes although nothing has changed"


def _owner(obj: Obj) -> str:
    return str((controller_of(obj) or {}).get("uid") or "")


TestLives = Lives.TestCase
TestLives.settings = settings(
    max_examples=150,
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestLives = pytest.mark.timeout(400)(TestLives)
