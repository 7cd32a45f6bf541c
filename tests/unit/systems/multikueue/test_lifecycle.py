"""Jobs on workers in the in-memory world: each story also runs through every crash, stale view, lost event
and failed write on the manager, and must end alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.multikueue import names
from fournos.systems.multikueue.config import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG
from tests.unit.systems.multikueue import actors
from tests.unit.systems.multikueue.actors import (
    condition_of,
    evict,
    finish,
    foreign,
    job,
    line,
    mirrors,
    on_first,
    only_first,
    outcome,
    runs_on,
    scenario,
    state,
    submit,
    twins,
    workload,
)
from tests.unit.systems.multikueue.workers import FOO, NS, WORKERS, at
from tests.world.harness import DISTURBED, Scenario, run
from tests.world.server import Server


def verdicts(server: Server) -> Any:
    """What happens to a job before it was ever seen leaves no trace on a worker: that may differ."""
    return {name: facts[1:] for name, facts in outcome(server)[0].items()}


# --- what happens ------------------------------------------------------------------------------------


def delete(server: Server) -> None:
    server.delete(FOO, Key(NS, "a"))


def deactivate(server: Server) -> None:
    server.patch(WORKLOAD, Key(NS, "foo-a"), {"spec": {"active": False}})


def hours_pass(server: Server) -> None:
    server.clock.advance(2 * 3600)


def worker_evicts(server: Server) -> None:
    line(server, "w2", full=None)
    line(server, "w1", evict=True)


def cut(server: Server) -> None:
    line(server, "w2", full=None)
    line(server, "w1", down=True)


def mend(server: Server) -> None:
    line(server, "w1", down=None)


def has_finished(server: Server) -> None:
    assert condition(workload(server), "Finished")["reason"] == "Succeeded"  # type: ignore[index]
    assert job(server)["status"]["phase"] == "Succeeded"
    assert not mirrors(server) and not twins(server)


def nothing_left(server: Server) -> None:
    assert not mirrors(server) and not twins(server)


def is_inactive(server: Server) -> None:
    nothing_left(server)
    assert job(server)["status"]["phase"] == "Stopped" and not is_true(workload(server), "QuotaReserved")
    assert "clusterName" not in workload(server)["status"]


def runs_anywhere(server: Server) -> None:
    assert len(mirrors(server)) == 1 and job(server)["status"]["phase"] == "Running"


def after_the_cut(server: Server) -> None:
    """The lost worker's leftovers wait for it to come back."""
    assert ("w2", "a") in mirrors(server) and job(server)["status"]["where"] == "w2"
    assert condition_of(server, "workers.fournos.dev/w1") == ("False", "Unusable")
    assert condition_of(server, "Active") == ("True", "SomeActiveClusters")


STORIES: dict[str, tuple[Scenario, Callable[[Server], None]]] = {
    "finishes": (scenario(finish), has_finished),
    "runs": (scenario(setup=on_first), runs_on("w1")),
    "is deleted": (scenario(delete), nothing_left),
    "is evicted and runs again": (scenario(evict), runs_anywhere),
    "is deactivated": (scenario(deactivate, end_unseen=verdicts), is_inactive),
    "is deactivated after hours": (
        scenario(hours_pass, deactivate, setup=on_first, end_unseen=verdicts),
        is_inactive,
    ),
    "is evicted by its worker": (scenario(worker_evicts, setup=on_first), runs_on("w2")),
    "loses its worker": (scenario(cut, setup=on_first, end_unseen=verdicts), after_the_cut),
    "its worker comes back late": (scenario(cut, mend, setup=on_first), runs_on("w2")),
}


@pytest.mark.parametrize("story", STORIES)
async def test_story(story: str) -> None:
    case, check = STORIES[story]
    check((await run(case)).server)


@pytest.mark.parametrize("disturbed", DISTURBED)
@pytest.mark.parametrize("story", STORIES)
async def test_survives(story: str, disturbed: str) -> None:
    assert await DISTURBED[disturbed](STORIES[story][0]) > 5


# --- single cases ------------------------------------------------------------------------------------


async def test_a_foreign_object_of_the_same_name_is_not_touched() -> None:
    done = await run(scenario(setup=foreign))
    server = done.server
    assert server.get(at("w2", FOO), Key(NS, "a"))["spec"] == {"theirs": True}
    assert state(server) == "Pending" and twins(server) == [("w1", "foo-a")], (
        "the other worker is still asked"
    )


async def test_owner_finalizers_and_bookkeeping_stay() -> None:
    def setup(server: Server) -> None:
        owner = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "gone"}
        only_first(server)
        submit(
            server,
            ownerReferences=[owner, {"apiVersion": "v1", "kind": "Y", "name": "y", "uid": "uid-1"}],
            finalizers=["example.com/mine"],
            annotations={"note": "travels", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            labels={"team": "a", "fournos.dev/confirms": "uid-of-a-job-here"},
        )

    server = (await run(scenario(setup=setup))).server
    copy = server.get(at("w1", FOO), Key(NS, "a"))
    assert copy["spec"] == {"suspend": True, "work": 1}
    assert copy["metadata"]["annotations"]["note"] == "travels"
    assert not any("last-applied" in name for name in copy["metadata"]["annotations"])
    assert copy["metadata"]["labels"]["team"] == "a"
    assert "fournos.dev/confirms" not in copy["metadata"]["labels"], "it repeats no job of the worker"


async def test_orphans_go_and_what_is_not_ours_stays() -> None:
    def leftovers(server: Server) -> None:
        ours = {names.ORIGIN_LABEL: "fournos", names.PREBUILT: "foo-gone"}
        other = {**ours, names.ORIGIN_LABEL: "another-manager"}
        for name, labels in (("gone", ours), ("other", other)):
            meta = {"name": name, "namespace": NS, "labels": labels}
            server.create(at("w1", FOO), {"metadata": meta, "spec": {}})
        for name, labels in (("foo-gone", ours), ("foo-other", other)):
            meta = {
                "name": name,
                "namespace": NS,
                "labels": labels,
                "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            }
            server.create(at("w1", WORKLOAD), {"metadata": meta, "spec": {"podSets": []}})

    case = scenario(setup=leftovers)
    server = (await run(replace(case, invariants=()))).server
    assert [one["metadata"]["name"] for one in server.list(at("w1", FOO))] == ["other"]
    assert [one["metadata"]["name"] for one in server.list(at("w1", WORKLOAD))] == ["foo-other"]


# --- workers that join, leave, lack a kind or refuse, and who gets the jobs then -------------------------


async def test_a_worker_that_leaves_the_fleet_gives_its_jobs_back() -> None:
    def leave(server: Server) -> None:
        line(server, "w2", full=None)
        server.patch(MULTIKUEUE_CONFIG, Key("", "all"), {"spec": {"clusters": ["w2"]}})

    runs_on("w2")((await run(scenario(leave, setup=on_first))).server)


async def test_a_config_that_is_made_again_changes_nothing() -> None:
    def remove(server: Server) -> None:
        line(server, "w2", full=None)
        server.delete(MULTIKUEUE_CONFIG, Key("", "all"))

    def restore(server: Server) -> None:
        assert condition_of(server, "Active") == ("False", "BadConfig")
        server.create(MULTIKUEUE_CONFIG, {"metadata": {"name": "all"}, "spec": {"clusters": list(WORKERS)}})

    server = (await run(scenario(remove, restore, setup=on_first))).server
    runs_on("w1")(server)
    assert condition_of(server, "Active") == ("True", "Active")
    assert not (workload(server)["status"].get("schedulingStats") or {}), "it was never evicted"


async def test_two_names_of_one_cluster_do_not_take_from_each_other() -> None:
    def leftovers(server: Server) -> None:
        server.create(MULTIKUEUE_CLUSTER, {"metadata": {"name": "silent"}, "spec": {}})
        for name, worker in (("alias", "w1"), ("renamed", "no-more"), ("not-connected", "silent")):
            meta = {
                "name": name,
                "namespace": NS,
                "labels": {names.ORIGIN_LABEL: "fournos", names.PREBUILT: f"foo-{name}"},
                "annotations": {names.WORKER: worker},
            }
            server.create(at("w2", FOO), {"metadata": meta, "spec": {}})

    case = scenario(setup=leftovers)
    server = (await run(replace(case, invariants=()))).server
    assert [one["metadata"]["name"] for one in server.list(at("w2", FOO))] == ["alias", "not-connected"]


async def test_a_job_that_its_worker_deactivates_stops_before_it_is_deleted() -> None:
    def deactivate_there(server: Server) -> None:
        line(server, "w2", full=None)
        server.patch(at("w1", WORKLOAD), Key(NS, "foo-a"), {"spec": {"active": False}})

    server = (await run(scenario(hours_pass, deactivate_there, setup=on_first))).server
    gone = [change for change in server.history if change.resource == at("w1", FOO)]
    phases = [one.object["status"]["phase"] for one in gone if one.type == "DELETED"]
    assert phases == ["Stopped"] and len(mirrors(server)) == 1


async def test_what_cannot_be_deleted_on_one_worker_does_not_keep_the_job_from_the_others() -> None:
    received: dict[str, float] = {}

    def stuck(server: Server) -> None:
        server.patch(at("w1", FOO), Key(NS, "a"), {"metadata": {"finalizers": ["example.com/gone"]}})
        line(server, "w2", full=None)
        evict(server)

    def listen(server: Server) -> None:
        checks = ((server.find(WORKLOAD, Key(NS, "foo-a")) or {}).get("status") or {}).get("admissionChecks")
        for check in checks or ():
            received.setdefault(str(check.get("message")), server.clock.monotonic())

    case = scenario(stuck, setup=on_first, horizon=3000.0)
    server = (await run(replace(case, actors=(*actors.ACTORS, listen), invariants=()))).server
    assert ("w2", "a") in mirrors(server) and workload(server)["status"]["clusterName"] == "w2"
    assert job(server)["status"]["where"] == "w2" and state(server) == "Ready"
    (waits,) = [text for text in received if text.startswith("waits for an earlier attempt to go")]
    assert '"w1" still has Foo jobs/a (its finalizers stay)' in waits
    others = [received[text] for text in received if 'reservation on "w2"' in text]
    assert 0 < others[-1] - received[waits] <= 310
