"""A MiniCluster's life in the in-memory world: each story also runs through every crash, stale view, lost
event and failed write, and must end alike."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fournos.api.kinds import MINICLUSTER
from fournos.engine.api.conditions import Condition, condition, is_true
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
from fournos.systems.miniclusters import names
from tests.unit.systems.miniclusters.actors import (
    NS,
    QUEUE,
    STORIES,
    Cluster,
    alive,
    change,
    controller,
    delete,
    ends_with,
    finished_means_over,
    flavors,
    get,
    story,
    submit,
    suspend,
    told,
)
from tests.world.harness import DISTURBED, run, run_to_quiescence
from tests.world.kueue import Kueue
from tests.world.process import NEVER, Process
from tests.world.server import Server, VirtualClock
from tests.world.status import set_conditions


@pytest.mark.parametrize("disturbed", DISTURBED)
@pytest.mark.parametrize("story", STORIES)
async def test_survives(story: str, disturbed: str) -> None:
    assert await DISTURBED[disturbed](STORIES[story]) > 2


# --- what the stories come to ------------------------------------------------------------------------


async def test_a_command_that_ends_well() -> None:
    status = get(await told("hello"))["status"]
    assert (status["phase"], status["exitCode"], status["maximumSize"]) == ("Finished", 0, 2)
    assert is_true({"status": status}, "JobFinished") and not is_true({"status": status}, "JobRunning")
    assert status["startedAt"] and status["finishedAt"] and status["jobid"]


async def test_the_exit_code_of_the_lead_is_the_result_and_the_job_stays_for_its_logs() -> None:
    server = await told("failure")
    status = get(server)["status"]
    assert (status["phase"], status["exitCode"]) == ("Finished", 3)
    finished = condition({"status": status}, "JobFinished") or {}
    assert (finished["status"], finished["reason"]) == ("True", "Failed")
    assert "exit code 3" in finished["message"]
    assert server.list(JOB) and [pod["metadata"]["name"] for pod in server.list(POD)] == ["flux-0"]


async def test_a_container_beside_flux_does_not_keep_it_from_ending() -> None:
    server = await told("sidecar")
    assert get(server)["status"]["exitCode"] == 0
    assert not server.list(JOB) and not server.list(POD)


async def test_a_container_beside_flux_does_not_keep_the_pod_of_a_killed_broker() -> None:
    before: list[str] = []

    def killed(server: Server) -> None:
        one = server.get(POD, Key(NS, "flux-1"))
        before.append(one["metadata"]["uid"])
        at = server.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        ended = {"terminated": {"exitCode": 137, "finishedAt": at}}
        found = [{"name": "flux", "state": ended}, {"name": "beside", "state": {"running": {}}}]
        status = {"containerStatuses": found, "conditions": [{"type": "Ready", "status": "False"}]}
        server.patch(POD, key_of(one), {"status": status}, subresource="status")

    server = (await run(story(killed))).server
    assert server.get(POD, Key(NS, "flux-1"))["metadata"]["uid"] not in before
    assert get(server)["status"]["phase"] == "Ready"


async def test_a_kubelet_that_is_late_costs_no_logs() -> None:
    world = ends_with(0, late=True)
    server = (await run(story(world=world))).server
    assert server.list(JOB) and len(server.list(POD)) == 2
    assert "exitCode" not in get(server)["status"]


@pytest.mark.parametrize(
    ("labels", "spec", "stays"),
    [
        ({"kueue.x-k8s.io/multikueue-origin": "multikueue"}, {}, True),
        (QUEUE, {"managedBy": "kueue.x-k8s.io/multikueue"}, False),
    ],
    ids=["a copy on a worker", "on its manager"],
)
async def test_cleanup_of_what_another_cluster_runs(labels: Any, spec: Any, stays: bool) -> None:
    """The copy stays until the manager has its end; there the MiniCluster goes, and the copy with it."""

    def ended(server: Server) -> None:
        submit(server, labels=labels, cleanup=True, **spec)
        status = {"phase": "Finished", "exitCode": 0}
        server.patch(MINICLUSTER, Key(NS, "flux"), {"status": status}, subresource="status")

    server = (await run(story(setup=ended))).server
    assert bool(server.list(MINICLUSTER)) is stays


async def test_cleanup_leaves_nothing() -> None:
    server = await told("cleanup")
    left = [str(resource) for resource, _ in server.everything()]
    assert left == ["resourceflavors.kueue.x-k8s.io"]


async def test_it_grows_and_shrinks_within_its_maximum() -> None:
    server = await told("resize")
    assert get(server)["status"]["size"] == 1
    assert [pod["metadata"]["name"] for pod in server.list(POD)] == ["flux-0"]
    assert server.list(POD)[0]["metadata"]["labels"]["job-index"] == "0"
    (job,) = server.list(JOB)
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (1, 1)


async def test_ready_when_all_brokers_are_up_and_waiting_has_a_reason() -> None:
    server = (await run(story(world=lambda: Cluster(stuck={"flux-1"})))).server
    status = get(server)["status"]
    assert status["phase"] == "Running"
    assert "1 of 2 pods run" in status["message"]
    assert not is_true({"status": status}, "JobMiniClusterReady")
    assert get((await run(story())).server)["status"]["phase"] == "Ready"


async def test_the_services_pod_goes_when_the_command_has_ended() -> None:
    server = await told("services")
    assert [pod["metadata"]["name"] for pod in server.list(POD)] == ["flux-0"]


async def test_a_suspended_one_runs_nothing_and_comes_back() -> None:
    stopped = (await run(story(suspend(True)))).server
    assert not stopped.list(JOB) and not stopped.list(POD)
    status = get(stopped)["status"]
    assert status["phase"] == "Waiting" and "maximumSize" not in status and status["size"] == 0
    assert get(await told("suspended"))["status"]["phase"] == "Ready"


async def test_what_is_deleted_is_made_again() -> None:
    server = await told("recreated")
    assert get(server)["status"]["phase"] == "Ready"
    assert server.find(SECRET, Key(NS, "flux-curve")) and server.find(SERVICE, Key(NS, "flux-service"))


async def test_a_killed_lead_whose_workers_have_ended_begins_again_with_all() -> None:
    """The Job controller never runs an index again that has succeeded."""
    seen: list[str] = []

    def killed(server: Server) -> None:
        seen.append(uid_of(server.list(JOB)[0]))
        at = server.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        state = {"terminated": {"exitCode": 0, "finishedAt": at}}
        ended = {"phase": "Succeeded", "containerStatuses": [{"name": "flux", "state": state}]}
        server.patch(POD, Key(NS, "flux-1"), {"status": ended}, subresource="status")
        server.delete(POD, Key(NS, "flux-0"))

    server = (await run(story(killed))).server
    assert get(server)["status"]["phase"] == "Ready"
    assert uid_of(server.list(JOB)[0]) not in seen
    assert all(pod["status"]["phase"] == "Running" for pod in server.list(POD))
    complete = {"completeWorkers": True}
    kept = (await run(story(killed, setup=lambda server: submit(server, flux=complete)))).server
    assert uid_of(kept.list(JOB)[0]) in seen


async def test_two_share_the_headless_service_and_each_may_go() -> None:
    def setup(server: Server) -> None:
        submit(server, "flux")
        submit(server, "other")

    server = (await run(story(delete(MINICLUSTER, "flux"), setup=setup))).server
    service = server.get(SERVICE, Key(NS, "flux-service"))
    assert uid_of(get(server, "other")) in {one["uid"] for one in service["metadata"]["ownerReferences"]}
    assert get(server, "other")["status"]["phase"] == "Ready"


@pytest.mark.parametrize(
    ("resource", "name"),
    [(JOB, "flux"), (CONFIG_MAP, "flux-entrypoint"), (SECRET, "flux-curve"), (SERVICE, "flux-service")],
)
async def test_what_others_have_made_is_left_alone_and_named(resource: Any, name: str) -> None:
    """It waits with a message; when the name is free it goes on without intervention."""

    def setup(server: Server) -> None:
        server.create(resource, {"metadata": {"namespace": NS, "name": name}, "spec": {"mine": True}})
        submit(server)

    def look(server: Server) -> None:
        found = server.get(resource, Key(NS, name))
        assert found["spec"] == {"mine": True} and controller_of(found) is None
        status = get(server)["status"]
        assert status["phase"] == "Waiting" and name in status["message"]
        assert not is_true({"status": status}, "JobRequested")

    freed = story(look, delete(resource, name), setup=setup, horizon=600.0)
    server = (await run(freed)).server
    assert get(server)["status"]["phase"] == "Ready"


async def test_foreign_pods_are_not_labelled() -> None:
    def setup(server: Server) -> None:
        labels = {names.MINICLUSTER_LABEL: "flux", names.COMPLETION_INDEX_LABEL: "0"}
        meta = {"namespace": NS, "name": "stranger", "labels": labels}
        server.create(POD, {"metadata": meta, "spec": {}, "status": {}})
        submit(server)

    server = (await run(story(setup=setup))).server
    assert "job-index" not in server.get(POD, Key(NS, "stranger"))["metadata"]["labels"]


async def test_a_spec_that_cannot_work_has_a_message() -> None:
    server = (await run(story(setup=lambda server: submit(server, size=0)))).server
    status = get(server)["status"]
    assert status["phase"] == "Waiting" and "write at least 1" in status["message"]
    assert not server.list(JOB)


async def test_a_queue_label_that_is_removed_frees_the_quota() -> None:
    """It runs on, as one without a queue."""

    def leave(server: Server) -> None:
        assert server.list(WORKLOAD)
        labels = dict.fromkeys(QUEUE)
        server.patch(MINICLUSTER, Key(NS, "flux"), {"metadata": {"labels": labels}})

    server = (await run(story(leave, setup=lambda server: submit(server, labels=QUEUE)))).server
    assert not server.list(WORKLOAD) and server.list(JOB)
    assert get(server)["status"]["phase"] == "Ready"


async def test_what_another_cluster_runs_has_a_workload_and_nothing_else() -> None:
    def setup(server: Server) -> None:
        submit(server, labels=QUEUE, managedBy="kueue.x-k8s.io/multikueue", suspend=True)

    server = (await run(story(setup=setup))).server
    assert len(server.list(WORKLOAD)) == 1 and not server.list(JOB)
    assert "status" not in get(server)


async def test_what_another_controller_runs_is_left_alone() -> None:
    server = (await run(story(setup=lambda server: submit(server, managedBy="example.com/mine")))).server
    assert "status" not in get(server) and not server.list(JOB)


# --- random lives --------------------------------------------------------------------------------------
# Random lives: users, Kueue, Kubernetes, crashes, old views and thieves; what must hold always.
#
# Hypothesis shortens a life that breaks a rule to the few moves that matter.

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
