"""FournosJobs that a worker cluster runs: the manager only queues them, the worker resolves and runs them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fournos.api.fournosjob import MAX_RESULTS, FournosJobSpec
from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import JOB, Key, owner_reference
from fournos.engine.queueing.kinds import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from fournos.engine.queueing.workload import build
from fournos.engine.runtime.decision import Absent, Answer, Facts, LiveGet, Present, Unknown
from fournos.systems.jobs.build import workload_request
from fournos.systems.jobs.finish import MOST_BYTES, keep_results
from fournos.systems.jobs.part import jobs_controller
from fournos.systems.jobs.status import Context, Observed
from tests.unit.systems.jobs import actors
from tests.unit.systems.jobs.actors import (
    NS,
    SETTINGS,
    Kueue,
    Resolver,
    Tekton,
    edit,
    environment,
    job,
    phase,
    submit,
)
from tests.world.harness import DISTURBED, Scenario, in_order, run
from tests.world.server import Server

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
GPUS = {"gpuType": "a100", "gpuCount": 2}
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"


def scenario(setup: Any, *script: Any, resolver: Any = Resolver, tekton: Any = Tekton) -> Scenario:
    return Scenario(
        jobs_controller(SETTINGS, actors.TEMPLATE),
        in_order(environment, setup),
        cast=(resolver, Kueue, tekton),
        script=script,
        invariants=[the_last_status_comes_first],
        end=end,
    )


def the_last_status_comes_first(server: Server) -> None:
    """A manager may take a Workload's end for the sign that the job's status is the last one."""
    twin = server.find(WORKLOAD, Key(NS, "made-by-the-manager"))
    if twin is not None and is_true(twin, "Finished") and server.find(FOURNOS_JOB, Key(NS, "job")):
        assert phase(server) in ("Succeeded", "Failed", "Stopped")


def end(server: Server) -> Any:
    workloads = {
        one["metadata"]["name"]: (
            one["spec"].get("active", True),
            (condition(one, "Finished") or {}).get("reason"),
            is_true(one, "Admitted"),
        )
        for one in server.list(WORKLOAD)
    }
    return phase(server), workloads, len(server.list(JOB)), len(server.list(PIPELINE_RUN))


# --- where its queue leads -----------------------------------------------------------------------------


def leading_to(controller: str) -> Any:
    """The ClusterQueue has an admission check of this controller."""

    def setup(server: Server) -> None:
        meta = {"name": "fournos-queue", "namespace": NS}
        server.create(LOCAL_QUEUE, {"metadata": meta, "spec": {"clusterQueue": "fournos-queue"}})
        checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]}}
        server.patch(CLUSTER_QUEUE, Key("", "fournos-queue"), {"spec": checks})
        spec = {"controllerName": controller}
        server.create(ADMISSION_CHECK, {"metadata": {"name": "check"}, "spec": spec})

    return setup


@pytest.mark.parametrize("controller", [MULTIKUEUE, "fournos.dev/multikueue"])
async def test_a_queue_that_leads_to_other_clusters_makes_it_their_job(controller: str) -> None:
    setup = in_order(leading_to(controller), submit)
    done = await run(scenario(setup))
    assert job(done.server)["spec"]["managedBy"] == MULTIKUEUE
    assert phase(done.server) == ""
    assert [one["metadata"]["name"] for one in done.server.list(WORKLOAD)] == ["job"]
    assert done.server.list(JOB) == done.server.list(PIPELINE_RUN) == []
    await DISTURBED["crashes"](scenario(setup))


LOCAL_ONES: dict[str, tuple[str, dict[str, Any]]] = {
    "the check is of another kind": ("kueue.x-k8s.io/provisioning-request", {}),
    "it names us": (MULTIKUEUE, {"managedBy": "fournos.dev/fournos"}),
    "it has no quota": (MULTIKUEUE, {"clusterless": True, "exclusive": False, "cluster": None}),
}


@pytest.mark.parametrize("why", LOCAL_ONES)
async def test_it_runs_here_otherwise(why: str) -> None:
    controller, spec = LOCAL_ONES[why]

    def setup(server: Server) -> None:
        leading_to(controller)(server)
        submit(server, **spec)

    done = await run(scenario(setup))
    assert phase(done.server) == "Succeeded"
    assert job(done.server)["spec"].get("managedBy") == spec.get("managedBy")


async def test_the_copy_on_a_worker_runs_there_wherever_its_queue_leads() -> None:
    setup = in_order(leading_to(MULTIKUEUE), sent)
    assert phase((await run(scenario(setup))).server) == "Succeeded"


# --- on the manager ----------------------------------------------------------------------------------


def managed(server: Server, **spec: Any) -> None:
    submit(server, managedBy=MULTIKUEUE, **spec)


MANAGER: dict[str, tuple[Scenario, Any]] = {
    "is queued": (scenario(managed), {"job": (True, None, True)}),
    "with GPUs": (
        scenario(lambda server: managed(server, hardware=GPUS, priority="nightly")),
        {"job": (True, None, True)},
    ),
    "is stopped": (scenario(managed, edit(shutdown="Stop")), {"job": (False, None, True)}),
    "waits, suspended": (scenario(lambda server: managed(server, suspend=True)), {}),
    "is suspended and goes on": (
        scenario(managed, edit(suspend=True), edit(suspend=False)),
        {"job": (True, None, True)},
    ),
}


@pytest.mark.parametrize("story", MANAGER)
async def test_the_manager_makes_a_workload_and_nothing_else(story: str) -> None:
    case, workloads = MANAGER[story]
    server = (await run(case)).server
    assert end(server) == ("", workloads, 0, 0)
    assert "status" not in job(server) and not job(server)["metadata"].get("finalizers")


@pytest.mark.parametrize("disturbed", DISTURBED)
@pytest.mark.parametrize("story", MANAGER)
async def test_the_manager_survives(story: str, disturbed: str) -> None:
    await DISTURBED[disturbed](MANAGER[story][0])


async def test_the_manager_requests_what_the_spec_has() -> None:
    case = scenario(lambda server: managed(server, hardware=GPUS))
    server = (await run(case)).server
    (pod_set,) = server.list(WORKLOAD)[0]["spec"]["podSets"]
    requests = pod_set["template"]["spec"]["containers"][0]["resources"]["requests"]
    assert requests == {"fournos/cluster-slot": "100", "fournos/gpu-a100": "2"}


# --- on the worker -----------------------------------------------------------------------------------


def sent(server: Server, **spec: Any) -> None:
    """As MultiKueue does it: the Workload first, without an owner, then the job."""
    submit(server, **spec)
    found = job(server)
    server.delete(FOURNOS_JOB, Key(NS, "job"))
    parsed = jobs_spec(found)
    request = workload_request(
        found, parsed, hardware=parsed.hardware, priority=None, attempt=1, settings=SETTINGS
    )
    body = dict(build(request))
    body["metadata"] = {
        **{name: value for name, value in body["metadata"].items() if name != "ownerReferences"},
        "name": "made-by-the-manager",
    }
    server.create(WORKLOAD, body)
    labels = {PREBUILT: "made-by-the-manager"}
    meta = {"name": "job", "namespace": NS, "labels": labels}
    server.create(FOURNOS_JOB, {**found, "metadata": meta})


def jobs_spec(found: Any) -> Any:
    return FournosJobSpec.model_validate(found["spec"])


def failing() -> Tekton:
    return Tekton(fails={"job"}, pods=True)


def requests_gpus() -> Resolver:
    return Resolver({"hardware": {"gpuType": "a100", "gpuCount": 4}})


WORKER: dict[str, tuple[Scenario, Any]] = {
    "succeeds": (
        scenario(sent, resolver=lambda: Resolver({"secretRefs": ["my-creds"]})),
        ("Succeeded", {"made-by-the-manager": (True, "Succeeded", True)}, 1, 1),
    ),
    "fails": (
        scenario(
            lambda server: sent(server, retry={"limit": 2}), tekton=lambda: Tekton(fails={"job"}, pods=True)
        ),
        ("Failed", {"made-by-the-manager": (True, "Failed", True)}, 1, 1),
    ),
    "its resolver wants more than was queued": (
        scenario(sent, resolver=requests_gpus),
        ("Failed", {"made-by-the-manager": (True, "OutOfSync", True)}, 1, 0),
    ),
    "its resolver fails": (
        scenario(sent, resolver=lambda: Resolver(fails=True)),
        ("Failed", {"made-by-the-manager": (True, "Failed", True)}, 1, 0),
    ),
}


@pytest.mark.parametrize("story", WORKER)
async def test_the_worker_resolves_and_runs_it(story: str) -> None:
    case, wanted = WORKER[story]
    server = (await run(case)).server
    assert end(server) == wanted
    assert "managedBy" not in job(server)["spec"]


class Returning(Tekton):
    """A run with one task; the task and the Pipeline return results."""

    foreign: tuple[str, ...] = ()
    """TaskRuns that somebody else has made, and that Tekton lists."""
    value: Any = '{"kpis": []}'
    results = property(
        lambda self: [{"name": "fournos-results", "value": self.value}, {"name": "x", "value": "y"}]
    )

    def _step(self, server: Server, run: Any) -> bool:
        if not (run.get("status") or {}).get("childReferences"):
            name = run["metadata"]["name"]
            mine = owner_reference(PIPELINE_RUN, run)
            owners = {"by name": [], "owned": [{**mine, "controller": False}]}
            there = [one for one in ("own", *self.foreign) if one != "gone"]
            for task in there:
                meta = {
                    "name": f"{name}-{task}",
                    "namespace": NS,
                    "ownerReferences": owners.get(task, [mine]),
                }
                spec = {"taskRef": {"name": "another" if task == "forged" else "bench", "kind": "Task"}}
                server.create(TASK_RUN, {"metadata": meta, "spec": spec})
                value = {"results": [{"name": "fournos-results", "value": {"of": task}}]}
                server.patch(TASK_RUN, Key(NS, f"{name}-{task}"), {"status": value}, subresource="status")
            children = [
                {"kind": "TaskRun", "name": f"{name}-{one}", "pipelineTaskName": "bench"}
                for one in ("own", *self.foreign)
            ]
            found = {
                "pipelineSpec": {"tasks": [{"name": "bench", "taskRef": {"name": "bench"}}]},
                "childReferences": [*children, {"kind": "CustomRun", "name": "c"}],
                "results": self.results,
            }
            server.patch(PIPELINE_RUN, Key(NS, name), {"status": found}, subresource="status")
            run["status"] = {}
        return super()._step(server, run)


def returned(server: Server) -> Any:
    return [one["value"] for one in job(server)["status"].get("results") or ()]


async def test_what_its_run_returned_is_in_the_status_of_the_copy() -> None:
    case = scenario(sent, tekton=Returning)
    server = (await run(case)).server
    assert returned(server) == [{"of": "own"}, '{"kpis": []}']
    for disturbed in DISTURBED.values():
        await disturbed(case)


@pytest.mark.parametrize("which", ["by name", "owned", "forged", "gone"])
async def test_results_of_a_task_that_is_not_its_own_do_not_count_nor_do_those_that_may_be_copies(
    which: str,
) -> None:
    class Adopting(Returning):
        foreign = (which,)

    server = (await run(scenario(sent, tekton=Adopting))).server
    assert (phase(server), returned(server)) == ("Succeeded", [{"of": "own"}])


async def test_a_run_that_failed_returns_what_its_tasks_have_measured() -> None:
    case = scenario(sent, tekton=lambda: Returning(fails={"job"}))
    server = (await run(case)).server
    assert (phase(server), returned(server)) == ("Failed", [{"of": "own"}, '{"kpis": []}'])
    for disturbed in DISTURBED.values():
        await disturbed(case)


async def test_a_job_of_this_cluster_has_no_results_in_its_status() -> None:
    server = (await run(scenario(submit, tekton=Returning))).server
    assert (phase(server), returned(server)) == ("Succeeded", [])


async def test_results_that_may_not_be_read_or_are_too_large_fail_nothing() -> None:
    def blind(server: Server) -> None:
        sent(server)
        server.unreadable.add(TASK_RUN)

    assert returned((await run(scenario(blind, tekton=Returning))).server) == ['{"kpis": []}']

    class Flood(Returning):
        value = "x" * MOST_BYTES

    done = await run(scenario(sent, tekton=Flood))
    assert (phase(done.server), returned(done.server)) == ("Succeeded", [])


def ending(answer: Answer, seconds: int = 5) -> Context:
    """A copy whose run has succeeded, so many seconds ago; the answer is that to a read of the run."""
    ended = datetime(2030, 1, 1, tzinfo=UTC)
    meta = {"name": "job", "namespace": NS, "uid": "u", "labels": {PREBUILT: "w"}}
    status = {"completionTime": ended.strftime("%Y-%m-%dT%H:%M:%SZ")}
    runs = ({"metadata": {**meta, "uid": "r"}, "status": status},)
    seen = Observed(Key(NS, "job"), {"metadata": meta, "spec": {}}, FournosJobSpec(), runs=runs)
    facts = Facts({LiveGet(PIPELINE_RUN, Key(NS, "job")): answer})
    return Context(seen, facts, ended + timedelta(seconds=seconds), SETTINGS, actors.TEMPLATE)


@pytest.mark.parametrize(
    ("answer", "seconds", "kept"),
    [
        (Unknown("ServerError: not now"), 5, False),
        (Unknown("ServerError: not now"), 31, True),
        (Unknown("may not", forbidden=True), 5, True),
        (Absent(), 5, True),
    ],
)
def test_an_api_server_that_does_not_answer_is_asked_again_for_a_while(
    answer: Answer, seconds: int, kept: bool
) -> None:
    assert keep_results(ending(answer, seconds)) is kept


def test_results_that_are_too_large_are_reported() -> None:
    many = [{"name": "fournos-results", "value": "x"}] * (MAX_RESULTS + 1)
    for results in (many, [{"name": "fournos-results", "value": "x" * MOST_BYTES}]):
        ctx = ending(Present({"status": {"results": results}}))
        assert keep_results(ctx)
        (event,) = ctx.draft.events
        assert (event.reason, event.type) == ("ResultsNotKept", "Warning")
        assert "results" not in ctx.draft.render()


def test_results_that_may_be_somebody_else_s_are_reported() -> None:
    children = [{"kind": "TaskRun", "name": "job-run", "pipelineTaskName": "run"}]
    status = {"childReferences": children, "results": [{"name": "fournos-results", "value": "x"}]}
    run = {"metadata": {"name": "job", "namespace": NS, "uid": "r"}, "status": status}
    ctx = ending(Present(run))
    forged = {"metadata": {"name": "job-run", "uid": "t"}}
    answers = {**ctx.facts.answers, LiveGet(TASK_RUN, Key(NS, "job-run")): Present(forged)}
    ctx = replace(ctx, facts=Facts(answers))
    assert keep_results(ctx)
    (event,) = ctx.draft.events
    assert event.reason == "ResultsNotKept" and "TaskRun job-run is not what it runs" in event.message
    assert "results" not in ctx.draft.render()


@pytest.mark.parametrize("disturbed", DISTURBED)
@pytest.mark.parametrize("story", WORKER)
async def test_the_worker_survives(story: str, disturbed: str) -> None:
    assert await DISTURBED[disturbed](WORKER[story][0]) > 0


async def test_a_worker_without_the_workload_waits() -> None:
    def alone(server: Server) -> None:
        sent(server)
        server.delete(WORKLOAD, Key(NS, "made-by-the-manager"))

    server = (await run(scenario(alone))).server
    assert phase(server) == "Pending" and server.list(WORKLOAD) == []
    assert "is not there" in job(server)["status"]["message"]
