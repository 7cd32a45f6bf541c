"""Random lives: users, Kueue, Kubernetes, crashes, old views and thieves; what must hold always.

Hypothesis shortens a life that breaks a rule to the few moves that matter.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fournos.api.kinds import MINICLUSTER
from fournos.engine.api.conditions import Condition, is_true
from fournos.engine.kube.resource import (
    CONFIG_MAP,
    JOB,
    POD,
    SECRET,
    SERVICE,
    Key,
    controller_of,
    key_of,
    uid_of,
)
from fournos.engine.queueing.kinds import WORKLOAD
from tests.unit.systems.miniclusters.actors import NS, QUEUE, Cluster, change, controller, flavors, submit
from tests.unit.systems.miniclusters.stories import alive, finished_means_over
from tests.world.harness import run_to_quiescence
from tests.world.kueue import Kueue
from tests.world.process import NEVER, Process
from tests.world.server import Server, VirtualClock
from tests.world.status import set_conditions

NAMES = ("plain", "queued")
CHILDREN = (JOB, POD, CONFIG_MAP, SECRET, SERVICE, WORKLOAD)


class Lives(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.server = Server(VirtualClock())
        flavors(self.server)
        self.kueue, self.cluster = Kueue(), Cluster()
        self.controller = controller()
        self.codes: dict[str, int] = {}
        """UID of a MiniCluster -> its exit code, once it is said."""

    @initialize(lag=st.integers(0, 4))
    def begin(self, lag: int) -> None:
        self.lag = lag
        submit(self.server, "plain", maxSize=3)
        submit(self.server, "queued", labels=QUEUE, maxSize=3)
        self.process = Process(self.server, self.controller, lag=lag)

    def teardown(self) -> None:
        """After any history: it settles as its spec requires, and nothing remains of deleted objects."""
        try:
            if not hasattr(self, "process"):
                return
            self._rest()
            for one in self.server.list(MINICLUSTER):
                status, spec = one.get("status") or {}, one["spec"]
                name = one["metadata"]["name"]
                if status["phase"] == "Finished":
                    continue
                if spec.get("suspend"):
                    assert not self._pods(name), f"{name} is suspended and has pods"
                else:
                    assert status["phase"] == "Ready", f"{name}: {status}"
                    assert len(self._pods(name)) == status["size"]
            for one in self.server.list(MINICLUSTER):
                self.server.delete(MINICLUSTER, key_of(one))
            self._rest()
            left = [obj["metadata"]["name"] for kind in CHILDREN for obj in self.server.list(kind)]
            assert left == [], "something remains"
        finally:
            self.runner.close()

    def _rest(self) -> None:
        self.process = Process(self.server, self.controller)
        actors = (self.kueue, self.cluster)
        self.runner.run(run_to_quiescence(self.process, actors, invariants=(finished_means_over,)))

    def _pods(self, name: str) -> list[Any]:
        return [pod for pod in alive(self.server) if (controller_of(pod) or {}).get("name") == name]

    # --- the operator --------------------------------------------------------------------------------

    @rule(passes=st.integers(1, 6))
    def works(self, passes: int) -> None:
        for _ in range(passes):
            self.process.deliver()
            self.runner.run(self.process.step())

    @rule()
    def crashes(self) -> None:
        self.process = Process(self.server, self.controller, lag=self.lag)

    @rule()
    def time_passes(self) -> None:
        due = self.process.next_timer()
        if due != NEVER:
            self.server.clock.advance(max(0.0, due - self.server.clock.monotonic()))
            self.process.fire_timers()

    # --- the others ----------------------------------------------------------------------------------

    @rule(moves=st.lists(st.sampled_from(("kueue", "cluster")), min_size=1, max_size=6))
    def actors_work(self, moves: list[str]) -> None:
        for move in moves:
            getattr(self, move)(self.server)

    @rule()
    def garbage_is_collected(self) -> None:
        self.server.collect_garbage()

    @rule()
    def kueue_evicts(self) -> None:
        for workload in self.server.list(WORKLOAD):
            if is_true(workload, "Admitted") and not is_true(workload, "Evicted"):
                evicted = Condition("Evicted", "True", "Preempted", "evicted")
                set_conditions(self.server, WORKLOAD, workload, evicted)

    @rule(name=st.sampled_from(NAMES), size=st.integers(1, 3))
    def a_user_resizes(self, name: str, size: int) -> None:
        if self.server.find(MINICLUSTER, Key(NS, name)):
            change(self.server, name, size=size)

    @rule(value=st.booleans())
    def a_user_suspends(self, value: bool) -> None:
        if self.server.find(MINICLUSTER, Key(NS, "plain")):
            change(self.server, "plain", suspend=value)

    @rule(kind=st.sampled_from((JOB, POD, CONFIG_MAP, SECRET, SERVICE)), data=st.data())
    def a_thief(self, kind: Any, data: st.DataObject) -> None:
        found = self.server.list(kind)
        if found:
            self.server.delete(kind, key_of(data.draw(st.sampled_from(found))))

    @rule(name=st.sampled_from(NAMES), code=st.sampled_from((0, 3)))
    def a_command_ends(self, name: str, code: int) -> None:
        self.cluster.codes.setdefault(name, code)

    # --- what must hold always -----------------------------------------------------------------------

    @invariant()
    def a_result_never_changes(self) -> None:
        for one in self.server.list(MINICLUSTER):
            status = one.get("status") or {}
            if status.get("phase") == "Finished":
                code = status.get("exitCode")
                assert self.codes.setdefault(uid_of(one), code) == code

    @invariant()
    def one_job_each_and_no_more_than_its_maximum(self) -> None:
        for job in self.server.list(JOB):
            assert job["spec"]["parallelism"] == job["spec"]["completions"] <= 3

    @invariant()
    def quota_covers_pods(self) -> None:
        held = any(
            is_true(one, "QuotaReserved") and not is_true(one, "Finished")
            for one in self.server.list(WORKLOAD)
        )
        assert held or not self._pods("queued") or not self.server.find(MINICLUSTER, Key(NS, "queued"))


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=25, stateful_step_count=30)
TestLives.pytestmark = [pytest.mark.timeout(600)]
