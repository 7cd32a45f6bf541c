"""What fails a job at once, what makes it wait, and the words for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fournos.api.conditions import condition
from fournos.jobs.controller import jobs_controller
from fournos.jobs.kinds import FOURNOS_JOB, PIPELINE, PIPELINE_RUN
from fournos.jobs.settings import JobSettings
from fournos.jobs.template import Template
from fournos.kube.errors import ConnectionLostError, ForbiddenError, KubeError
from fournos.kube.kinds import POD, SECRET
from fournos.kube.resource import Key, Obj, Resource
from fournos.kube.status_errors import error_from
from fournos.queueing.kinds import WORKLOAD, WORKLOAD_PRIORITY_CLASS
from tests.unit.jobs.actors import (
    NS,
    SETTINGS,
    TEMPLATE,
    Kueue,
    Resolver,
    Tekton,
    environment,
    job,
    phase,
    submit,
)
from tests.world.harness import Scenario, run
from tests.world.server import Server

_NO_HARDWARE = (
    "No hardware requirements: spec.hardware not populated after resolution. A job with exclusive: false "
    "must name its GPUs: write spec.hardware, or set FOURNOS_HARDWARE_REQUIRED=false on the operator, "
    "which then runs such jobs without GPUs"
)


async def finished(
    setup: Callable[[Server], Any] = submit,
    *,
    writes: dict[str, Any] | None = None,
    settings: JobSettings = SETTINGS,
    template: Template = TEMPLATE,
    script: Any = (),
    tekton: Tekton | None = None,
    horizon: float = 60.0,
) -> Server:
    def begin(server: Server) -> None:
        environment(server)
        setup(server)

    cast = [Resolver(writes or {}), Kueue(), tekton or Tekton()]
    scenario = Scenario(jobs_controller(settings, template), begin, cast, script, horizon=horizon)
    return (await run(scenario)).server


def status(server: Server) -> Any:
    return job(server).get("status") or {}


@pytest.mark.parametrize("kind", [WORKLOAD, PIPELINE_RUN])
@pytest.mark.parametrize(
    ("code", "body"),
    [(302, b"<html>log in</html>"), (400, b"<html>400 Bad request</html>"), (404, b"no such page")],
)
async def test_one_answer_of_a_proxy_ends_no_job(kind: Resource, code: int, body: bytes) -> None:
    def setup(server: Server) -> None:
        submit(server)
        left = [1]

        def refuse(verb: str, resource: Resource, obj: Obj) -> KubeError | None:
            if verb == "create" and resource == kind and left:
                left.pop()
                return error_from(code, body)
            return None

        server.refusals.append(refuse)

    assert phase(await finished(setup)) == "Succeeded"


def without(resource: Resource, name: str, namespace: str = NS) -> Callable[[Server], None]:
    def setup(server: Server) -> None:
        server.delete(resource, Key(namespace, name))
        submit(server)

    return setup


def unannotated(server: Server) -> None:
    server.patch(PIPELINE, Key(NS, "fournos-full"), {"metadata": {"annotations": None}})
    submit(server)


SHARED = {"cluster": None, "exclusive": False}

FAILS: dict[str, tuple[Callable[[Server], None], dict[str, Any], str, str]] = {
    "unknown cluster": (
        lambda s: submit(s, cluster="nowhere"),
        {},
        "Cluster 'nowhere' not found",
        "ClusterNotFound",
    ),
    "unknown pipeline": (
        without(PIPELINE, "fournos-full"),
        {},
        "Failed to fetch Pipeline 'fournos-full': Not Found",
        "PipelineNotFound",
    ),
    "no resolve image": (
        unannotated,
        {},
        "Pipeline 'fournos-full' is missing the 'fournos.dev/resolve-image' annotation",
        "MissingResolveImage",
    ),
    "unknown GPU type": (
        submit,
        {"hardware": {"gpuType": "b300", "gpuCount": 1}},
        "GPU type 'b300' not available. Valid types: a100, h200",
        "InvalidGPUType",
    ),
    "no hardware": (
        lambda s: submit(s, **SHARED),
        {},
        _NO_HARDWARE,
        "NoHardware",
    ),
    "unknown secret": (
        submit,
        {"secretRefs": ["nothing"]},
        "Secret 'vault-nothing' (ref 'nothing') not found in namespace psap-secrets",
        "SecretRefNotFound",
    ),
    "secret not of Vault": (
        lambda s: (
            s.create(SECRET, {"metadata": {"name": "vault-own", "namespace": "psap-secrets"}}) and submit(s)
        ),
        {"secretRefs": ["own"]},
        "Secret 'vault-own' exists but is not a Vault-synced secret "
        "(missing fournos.dev/vault-entry=true label)",
        "SecretRefNotFound",
    ),
}


@pytest.mark.parametrize("case", FAILS)
async def test_fails_at_once_and_says_so(case: str) -> None:
    setup, writes, message, reason = FAILS[case]
    server = await finished(setup, writes=writes)
    assert (phase(server), status(server)["message"]) == ("Failed", message)
    assert condition(job(server), "Resolved")["reason"] == reason  # type: ignore[index]
    assert server.list(WORKLOAD) == []


async def test_a_missing_kubeconfig_fails_and_releases_quota() -> None:
    server = await finished(without(SECRET, "kubeconfig-cluster-1", "psap-secrets"))
    assert phase(server) == "Failed"
    expected = "Failed to copy kubeconfig: Secret 'kubeconfig-cluster-1' not found in namespace psap-secrets"
    assert status(server)["message"] == expected
    assert condition(job(server), "PipelineRunReady")["reason"] == "KubeconfigNotFound"  # type: ignore[index]
    assert server.list(WORKLOAD) == []


async def test_a_missing_priority_class_waits_until_it_comes() -> None:
    def create(server: Server) -> None:
        assert phase(server) == "Pending"
        assert condition(job(server), "WorkloadAdmitted")["reason"] == "PriorityClassNotFound"  # type: ignore[index]
        assert "WorkloadPriorityClass 'urgent' not found" in status(server)["message"]
        server.create(WORKLOAD_PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 500})

    server = await finished(lambda s: submit(s, priority="urgent"), script=[create])
    assert phase(server) == "Succeeded"


@pytest.mark.parametrize(
    ("missing", "reason"), [(PIPELINE_RUN, "TektonNotInstalled"), (WORKLOAD, "KueueNotInstalled")]
)
async def test_a_missing_engine_waits_until_it_is_installed(missing: Resource, reason: str) -> None:
    def install(server: Server) -> None:
        reasons = [c["reason"] for c in status(server)["conditions"]]
        assert reason in reasons
        server.unserved.discard(missing)

    def once_installed(actor: Any) -> Callable[[Server], None]:
        return lambda server: None if missing in server.unserved else actor(server)

    def begin(server: Server) -> None:
        environment(server)
        server.unserved.add(missing)
        submit(server)

    kueue = once_installed(Kueue()) if missing is WORKLOAD else Kueue()
    cast = [Resolver(), kueue, once_installed(Tekton())]
    scenario = Scenario(jobs_controller(SETTINGS, TEMPLATE), begin, cast, [install], horizon=60)
    done = await run(scenario)
    assert phase(done.server) == "Succeeded"


async def test_an_unreadable_template_waits_and_names_it() -> None:
    broken = Template("nowhere.yaml", None, "no such file")
    server = await finished(template=broken)
    assert phase(server) == "Resolving"
    assert "'nowhere.yaml' no such file" in status(server)["message"]


async def test_a_right_that_is_missing_waits() -> None:
    def refuse(verb: str, resource: Resource, obj: Obj) -> KubeError | None:
        if (verb, resource) == ("create", PIPELINE_RUN):
            return ForbiddenError("pipelineruns is forbidden", status=403)
        return None

    def setup(server: Server) -> None:
        server.refusals.append(refuse)
        submit(server)

    server = await finished(setup, script=[lambda s: s.refusals.clear()])
    assert phase(server) == "Succeeded"


async def test_a_foreign_object_of_our_name_is_left_alone() -> None:
    foreign = {"metadata": {"name": "job", "namespace": NS, "labels": {"theirs": "yes"}}, "spec": {"x": 1}}

    def setup(server: Server) -> None:
        server.create(PIPELINE_RUN, foreign)
        submit(server)

    server = await finished(setup, tekton=Tekton(endless={"job"}))
    assert phase(server) == "Failed"
    assert "exists already and belongs to no controller" in status(server)["message"]
    assert server.get(PIPELINE_RUN, Key(NS, "job"))["spec"] == {"x": 1}
    assert server.list(WORKLOAD) == []


async def test_stopped_before_it_began() -> None:
    server = await finished(lambda s: submit(s, shutdown="Stop"))
    assert phase(server) == "Stopped"
    assert server.list(PIPELINE_RUN) == []


async def test_work_that_finished_before_the_stop_counts() -> None:
    """Stop arrives when the run has just succeeded."""
    tekton = Tekton(endless={"job"})

    def stop_at_the_end(server: Server) -> None:
        now = "2030-01-01T00:10:00Z"
        over = {"type": "Succeeded", "status": "True", "reason": "Succeeded", "message": "done"}
        server.patch(FOURNOS_JOB, Key(NS, "job"), {"spec": {"shutdown": "Stop"}})
        server.patch(
            PIPELINE_RUN,
            Key(NS, "job"),
            {"status": {"conditions": [over], "completionTime": now}},
            subresource="status",
        )

    server = await finished(tekton=tekton, script=[stop_at_the_end])
    assert phase(server) == "Succeeded"


async def test_a_stop_is_raised_to_terminate() -> None:
    tekton = Tekton(deaf={"job"})

    def spec(shutdown: str) -> Callable[[Server], None]:
        def change(server: Server) -> None:
            server.patch(FOURNOS_JOB, Key(NS, "job"), {"spec": {"shutdown": shutdown}})

        return change

    seen: list[Any] = []

    def look(server: Server) -> None:
        seen.append(server.get(PIPELINE_RUN, Key(NS, "job"))["spec"].get("status"))

    await finished(tekton=tekton, script=[spec("Stop"), look, spec("Terminate"), look], horizon=30)
    assert seen == ["CancelledRunFinally", "Cancelled"]


async def test_suspended_at_creation_and_resumed() -> None:
    def resume(server: Server) -> None:
        assert phase(server) == "Pending"
        assert status(server)["message"].startswith("Suspended")
        server.patch(FOURNOS_JOB, Key(NS, "job"), {"spec": {"suspend": False}})

    server = await finished(lambda s: submit(s, suspend=True), script=[resume])
    assert phase(server) == "Succeeded"


async def test_suspended_while_it_runs() -> None:
    def suspend(value: bool) -> Callable[[Server], None]:
        def change(server: Server) -> None:
            if not value:
                assert (phase(server), server.list(WORKLOAD)) == ("Pending", [])
            server.patch(FOURNOS_JOB, Key(NS, "job"), {"spec": {"suspend": value}})

        return change

    server = await finished(tekton=Tekton(endless={"job"}), script=[suspend(True), suspend(False)])
    assert phase(server) == "Succeeded"
    assert [a["outcome"] for a in status(server)["attempts"]] == ["Stopped", "Succeeded"]


async def test_time_to_live_deletes_the_finished_job() -> None:
    server = await finished(lambda s: submit(s, ttl="30m"), horizon=1700)
    assert phase(server) == "Succeeded"
    server = await finished(lambda s: submit(s, ttl="30m"), horizon=1900)
    assert server.list(FOURNOS_JOB) == []


async def test_a_wait_that_is_too_long_fails() -> None:
    def setup(server: Server) -> None:
        submit(server, "first", cluster="cluster-1")
        submit(server, timeouts={"pending": "10m"})

    server = await finished(setup, tekton=Tekton(endless={"first"}), horizon=700)
    assert phase(server) == "Failed"
    assert "Not admitted within spec.timeouts.pending (10m)" in status(server)["message"]


async def test_who_holds_the_cluster_is_said() -> None:
    def setup(server: Server) -> None:
        submit(server, "first")
        submit(server)

    server = await finished(setup, tekton=Tekton(endless={"first"}))
    expected = "Cluster cluster-1 is exclusively locked by job first, waiting for it to finish"
    assert (phase(server), status(server)["message"]) == ("Pending", expected)


async def test_the_holder_that_is_said_is_the_one_that_holds() -> None:
    """Kueue's words stay the same when one job takes the cluster over from another; ours must not."""

    def setup(server: Server) -> None:
        submit(server, "first")
        submit(server, "urgent", priority="nightly")
        submit(server)

    def end_first(server: Server) -> None:
        assert "by job first" in status(server)["message"]
        server.patch(FOURNOS_JOB, Key(NS, "first"), {"spec": {"shutdown": "Terminate"}})

    server = await finished(setup, tekton=Tekton(endless={"first", "urgent"}), script=[end_first])
    assert phase(server, "first") == "Stopped"
    expected = "Cluster cluster-1 is exclusively locked by job urgent, waiting for it to finish"
    assert (phase(server), status(server)["message"]) == ("Pending", expected)


async def test_a_long_queue_is_not_written_again_for_every_job_that_ends() -> None:
    def setup(server: Server) -> None:
        submit(server, "first")
        for number in range(60):
            submit(server, f"waiting-{number}")

    server = await finished(setup, tekton=Tekton(endless={"first"}))
    messages = [j["status"]["message"] for j in server.list(FOURNOS_JOB) if j["metadata"]["name"] != "first"]
    assert sum("by job first" in message for message in messages) == 50
    assert sum("by another job" in message for message in messages) == 10


async def test_copies_of_secrets_go_with_the_run_where_the_setting_says_so() -> None:
    kept = await finished(writes={"secretRefs": ["vault-my-creds"]})
    assert len(kept.list(SECRET, namespace=NS)) == 2
    gone = await finished(
        writes={"secretRefs": ["vault-my-creds"]},
        settings=SETTINGS.model_copy(update={"secrets_kept": "run"}),
    )
    assert phase(gone) == "Succeeded"
    assert gone.list(SECRET, namespace=NS) == []


async def test_a_lost_workload_stops_the_run_and_queues_it_again() -> None:
    def lose(server: Server) -> None:
        server.delete(WORKLOAD, Key(NS, "job"))

    server = await finished(tekton=Tekton(endless={"job"}, pods=True), script=[lose])
    assert phase(server) == "Succeeded"
    assert [a["outcome"] for a in status(server)["attempts"]] == ["Lost", "Succeeded"]


async def test_a_spec_that_changes_in_the_queue_is_queued_anew() -> None:
    """Cluster and priority are free until a cluster is assigned."""

    def setup(server: Server) -> None:
        submit(server, "first")
        submit(server)

    def move(server: Server) -> None:
        assert phase(server) == "Pending"
        server.patch(FOURNOS_JOB, Key(NS, "job"), {"spec": {"cluster": "cluster-2"}})

    server = await finished(setup, tekton=Tekton(endless={"first"}), script=[move])
    assert (phase(server), status(server)["cluster"]) == ("Succeeded", "cluster-2")


async def test_a_spec_that_cannot_be_read_fails_and_says_what_is_wrong() -> None:
    server = await finished(lambda s: submit(s, hardware={"gpuType": ["a100"], "gpuCount": "many"}))
    assert phase(server) == "Failed"
    assert "The spec cannot be read: spec.hardware.gpuType" in status(server)["message"]


async def test_no_second_run_beside_the_pods_of_a_deleted_one() -> None:
    """The answer to the creation is lost, the run starts a pod, somebody deletes it: all before we look."""

    def setup(server: Server) -> None:
        def lose(verb: str, resource: Resource, obj: Obj) -> KubeError | None:
            if (verb, resource) != ("create", PIPELINE_RUN):
                return None
            server.refusals.clear()
            labels = {"tekton.dev/pipelineRun": "job"}
            server.create(POD, {"metadata": {"name": "left", "namespace": NS, "labels": labels}})
            server.patch(POD, Key(NS, "left"), {"status": {"phase": "Running"}}, subresource="status")
            return ConnectionLostError("connection reset by peer")

        server.refusals.append(lose)
        submit(server)

    def look(server: Server) -> None:
        assert (phase(server), server.list(PIPELINE_RUN)) == ("Admitted", [])
        assert "waiting for 1 pod(s) to end: left" in status(server)["message"]
        server.delete(POD, Key(NS, "left"))

    server = await finished(setup, script=[look], tekton=Tekton(keeps_pods={"left"}))
    assert phase(server) == "Succeeded"


LIMITS = {
    "none": ({}, ("25h0m0s", "24h0m0s", "1h0m0s")),
    "pipeline": ({"pipeline": "10h"}, ("10h", "9h0m0s", "1h0m0s")),
    "short pipeline": ({"pipeline": "1h"}, ("1h", "30m0s", "30m0s")),
    "pipeline and tasks": ({"pipeline": "1h", "tasks": "50m"}, ("1h", "50m", "10m0s")),
    "pipeline and finally": ({"pipeline": "1h", "finally": "5m"}, ("1h", "55m0s", "5m")),
    "tasks": ({"tasks": "48h"}, ("49h0m0s", "48h", "1h0m0s")),
    "all": ({"pipeline": "3h", "tasks": "1h", "finally": "1h"}, ("3h", "1h", "1h")),
}


@pytest.mark.parametrize("case", LIMITS)
async def test_limits_that_are_not_given_follow_from_those_that_are(case: str) -> None:
    given, wanted = LIMITS[case]
    server = await finished(lambda s: submit(s, timeouts=given))
    limits = server.get(PIPELINE_RUN, Key(NS, "job"))["spec"]["timeouts"]
    assert (limits["pipeline"], limits["tasks"], limits["finally"]) == wanted


async def test_managed_by_another_controller_is_left_alone() -> None:
    server = await finished(lambda s: submit(s, managedBy="kueue.x-k8s.io/multikueue"))
    assert "status" not in job(server)


async def test_objects_stored_before_a_rule_fail_with_its_words() -> None:
    server = await finished(lambda s: submit(s, cluster=None))
    assert phase(server) == "Failed"
    assert "exclusive" in status(server)["message"]
