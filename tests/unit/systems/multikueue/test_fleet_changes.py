"""Workers that join, leave, lack a kind or refuse, and who gets the jobs then."""

from __future__ import annotations

from dataclasses import replace

from fournos.engine.api.conditions import condition
from fournos.engine.kube.errors import InvalidError
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.multikueue import names
from fournos.systems.multikueue.config import MULTIKUEUE_CONFIG
from tests.unit.systems.multikueue import actors
from tests.unit.systems.multikueue.actors import (
    condition_of,
    job,
    line,
    mirrors,
    state,
    submit,
    workload,
)
from tests.unit.systems.multikueue.lives import (
    evict,
    finish,
    foreign,
    is_rejected,
    on_first,
    runs_on,
    scenario,
)
from tests.unit.systems.multikueue.workers import FOO, NS, WORKERS, at
from tests.world.harness import run
from tests.world.server import Server


async def test_refused_by_all_it_is_rejected() -> None:
    def refuse(server: Server) -> None:
        foreign(server)
        line(server, "w1", full=None)
        groups = {at(worker, FOO) for worker in WORKERS}
        server.refusals.append(
            lambda verb, resource, obj: (
                InvalidError("spec.work: no", status=422) if verb == "create" and resource in groups else None
            )
        )

    server = (await run(scenario(setup=refuse))).server
    is_rejected(server)
    assert "spec.work: no" in workload(server)["status"]["admissionChecks"][0]["message"]


async def test_a_worker_that_leaves_the_fleet_gives_its_jobs_back() -> None:
    def leave(server: Server) -> None:
        line(server, "w2", full=None)
        server.patch(MULTIKUEUE_CONFIG, Key("", "all"), {"spec": {"clusters": ["w2"]}})

    runs_on("w2")((await run(scenario(leave, setup=on_first))).server)


async def test_a_worker_without_the_crd_is_left_out_for_this_kind_alone() -> None:
    def setup(server: Server) -> None:
        line(server, "w1", missing=True)
        submit(server)

    server = (await run(scenario(setup=setup))).server
    runs_on("w2")(server)
    assert condition_of(server, "workers.fournos.dev/w1") == ("True", "SomeKinds")


async def test_what_a_worker_lacks_is_reported_and_once_it_is_there_the_job_runs() -> None:
    messages: list[str] = []

    def setup(server: Server) -> None:
        line(server, "w1", bare=True)
        on_first(server)

    def received(server: Server) -> None:
        messages.append(workload(server)["status"]["admissionChecks"][0]["message"])
        line(server, "w1", bare=None)

    runs_on("w1")((await run(scenario(received, setup=setup))).server)
    assert messages == [
        'waits for quota on "w1", "w2"; "w1" does not take it yet: namespaces "jobs" not found',
    ]


async def test_no_worker_at_all() -> None:
    def setup(server: Server) -> None:
        for worker in WORKERS:
            line(server, worker, down=True)
        submit(server)

    server = (await run(scenario(setup=setup))).server
    assert condition_of(server, "Active") == ("False", "NoUsableClusters")
    assert "cannot be reached" in workload(server)["status"]["admissionChecks"][0]["message"]


async def test_two_names_of_one_cluster_do_not_take_from_each_other() -> None:
    def leftovers(server: Server) -> None:
        for name, worker in (("alias", "w1"), ("renamed", "no-more")):
            meta = {
                "name": name,
                "namespace": NS,
                "labels": {names.ORIGIN_LABEL: "fournos", names.PREBUILT: f"foo-{name}"},
                "annotations": {names.WORKER: worker},
            }
            server.create(at("w2", FOO), {"metadata": meta, "spec": {}})

    case = scenario(setup=leftovers)
    server = (await run(replace(case, invariants=()))).server
    assert [one["metadata"]["name"] for one in server.list(at("w2", FOO))] == ["alias"]


async def test_equal_workers_share_the_load() -> None:
    def many(server: Server) -> None:
        for number in range(12):
            submit(server, f"j{number}")

    case = scenario(setup=many)
    server = (await run(replace(case, invariants=()))).server
    counts = [sum(worker == found for found, _ in mirrors(server)) for worker in WORKERS]
    assert sum(counts) == 12 and min(counts) >= 2


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


async def test_a_finished_job_is_reported_though_its_copy_stays() -> None:
    def stuck(server: Server) -> None:
        server.patch(at("w1", FOO), Key(NS, "a"), {"metadata": {"finalizers": ["example.com/gone"]}})
        finish(server)

    server = (await run(replace(scenario(stuck, setup=on_first), invariants=()))).server
    assert condition(workload(server), "Finished")["reason"] == "Succeeded"  # type: ignore[index]
    assert mirrors(server) == [("w1", "a")]
