"""Failed pods of components that are judged by their status, and failures that may pass."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import JOB, POD, Key
from fournos.engine.runtime.decision import Decision, Facts, Present
from fournos.systems.appwrappers.health import component_of, unreplaced
from fournos.systems.appwrappers.kinds import WRAPPED, infer, wrapped_kind
from fournos.systems.appwrappers.observe import project_pod
from fournos.systems.appwrappers.run import running
from fournos.systems.appwrappers.settings import tolerance
from fournos.systems.appwrappers.status import Context, Observed
from tests.unit.systems.appwrappers.actors import (
    NS,
    OWN,
    Controllers,
    get,
    job_template,
    phase,
    pod_template,
    wrapper,
)
from tests.unit.systems.appwrappers.test_faults import Watch, submitted, watched
from tests.unit.systems.appwrappers.test_lifecycle import outcome, scenario
from tests.world.harness import DISTURBED, run
from tests.world.server import Server

PREFIX = "workload.codeflare.dev.appwrapper/"


class Unreplaced(Watch):
    """The Job controller waits before it makes another pod, as the real one does."""

    delay = 10.0

    def _made_pods(self, server: Server, kind: Any, owner: Any) -> bool:
        failed = [one for one in server.list(POD) if (one.get("status") or {}).get("phase") == "Failed"]
        ended = max((one["status"]["containerStatuses"][0]["at"] for one in failed), default=-self.delay)
        return server.clock.seconds >= ended + self.delay and super()._made_pods(server, kind, owner)

    def _lived(self, server: Server, pod: Any) -> bool:
        moved = super()._lived(server, pod)
        name = Key(NS, pod["metadata"]["name"])
        status = server.get(POD, name).get("status") or {}
        if moved and status.get("phase") == "Failed":
            statuses = [{**status["containerStatuses"][0], "at": server.clock.seconds}]
            server.patch(POD, name, {"status": {"containerStatuses": statuses}}, subresource="status")
        return moved


class Lost(Unreplaced):
    delay = 36_000.0


ALL = {f"many-{number}" for number in range(9)}


async def test_a_job_whose_pod_fails_is_reset_up_to_the_limit_although_the_job_goes_on() -> None:
    done, seen = await watched(
        submitted(
            job_template("many"),
            failureGracePeriodDuration="0s",
            retryPausePeriodDuration="5s",
            retryLimit="3",
        ),
        Unreplaced(always_fails=ALL),
    )
    assert phase(done.server) == "Failed" and get(done.server)["status"]["resettingCount"] == 3
    assert condition(get(done.server), "Unhealthy")["reason"] == "FoundFailedPods"  # type: ignore[index]
    assert seen.times("Failed")[0] <= 90


async def test_its_failed_pod_has_the_whole_grace() -> None:
    _, seen = await watched(submitted(job_template("many"), retryLimit="1"), Lost(always_fails=ALL))
    assert (seen.times("Resetting"), seen.times("Failed")) == ([60], [60 + 90])


@pytest.mark.parametrize("disturbed", DISTURBED)
async def test_survives(disturbed: str) -> None:
    limits = {"failureGracePeriodDuration": "0s", "retryPausePeriodDuration": "5s", "retryLimit": "1"}
    story = scenario(
        submitted(job_template("many"), **limits), world=lambda: Lost(always_fails=ALL), end=outcome
    )
    assert await DISTURBED[disturbed](story) > 5


async def test_a_job_that_recovers_within_the_grace_goes_on() -> None:
    def later(server: Server) -> None:
        assert is_true(get(server), "Unhealthy")
        server.clock.advance(20)

    def much_later(server: Server) -> None:
        server.clock.advance(7200)

    world = Unreplaced(fails={"many-0"}, endless={"many-1"})
    done, _ = await watched(submitted(job_template("many")), world, script=[later, much_later], horizon=0)
    found = get(done.server)
    assert phase(done.server) == "Running" and not is_true(found, "Unhealthy")
    assert len(done.server.list(POD)) == 2 and is_true(found, "PodsReady")
    assert "resettingCount" not in found["status"], "the failed pod stays for its log"


# --- every kind ----------------------------------------------------------------------------------------

BODY = {"template": pod_template()}
ROLES = {"Master": {"replicas": 1, **BODY}, "Worker": {"replicas": 1, **BODY}}
RAY = {"headGroupSpec": BODY, "workerGroupSpecs": [{"replicas": 1, **BODY}]}
SPECS: dict[str, dict[str, Any]] = {
    "Deployment": {"replicas": 2, **BODY},
    "StatefulSet": {"replicas": 2, **BODY},
    "Job": {"parallelism": 2, **BODY},
    "JobSet": {"replicatedJobs": [{"name": "a", "template": {"spec": BODY}}]},
    "PyTorchJob": {"pytorchReplicaSpecs": ROLES},
    "MPIJob": {"mpiReplicaSpecs": {"Launcher": BODY, "Worker": BODY}},
    "RayCluster": RAY,
    "RayJob": {"rayClusterSpec": RAY},
    "LeaderWorkerSet": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": pod_template()}},
}
NOW = datetime(2030, 1, 1, 1, tzinfo=UTC)
SINCE = "2030-01-01T00:00:00Z"


def decided(kind: str, status: Any, *pods: Any, grace: str = "0s", **annotations: str) -> tuple[str, str]:
    """The phase that a running AppWrapper of such a component is in next, and why."""
    resource = next(one.resource for one in WRAPPED if one.resource.kind == kind)
    template: dict[str, Any] = {"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": "x"}}
    template["spec"] = SPECS.get(kind) or {}
    made = wrapper(template, failureGracePeriodDuration=grace, **annotations)
    made["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    made["spec"]["suspend"] = False
    deployed = {"type": "ResourcesDeployed", "status": "True", "lastTransitionTime": SINCE}
    pod_sets = [{"path": one.path, "replicas": one.replicas} for one in infer(template)]
    component = {"name": "x", "kind": kind, "apiVersion": resource.api_version, "podSets": pod_sets}
    components = [{**component, "conditions": [deployed]}]
    made["status"] = {"phase": "Running", "conditions": [deployed], "componentStatus": components}
    meta = {"name": "x", "uid": "c", "ownerReferences": [{"uid": "u", "controller": True}]}
    live = {"metadata": meta, "spec": template["spec"], "status": status}
    observed = Observed(Key(NS, "aw"), made, (live,), (True,), tuple(map(project_pod, pods)))
    empty = Context(observed, Facts(), NOW, OWN)
    question = empty.component_question(0)
    assert question is not None
    facts = Facts({question: Present(live), empty.pods_question: Present(pods)})
    found = running(Context(observed, facts, NOW, OWN))
    assert isinstance(found, Decision) and found.status is not None
    unhealthy = condition({"status": found.status}, "Unhealthy") or {}
    return found.status["phase"], str(unhealthy.get("reason")) if unhealthy.get("status") == "True" else ""


def pod(name: str, phase: str, *, made: str = SINCE, ended: str = "", code: int = 1, at: str = "0") -> Any:
    terminated = {"state": {"terminated": {"exitCode": code, "finishedAt": ended}}} if ended else {}
    ready = [{"type": "Ready", "status": "True"}] if phase == "Running" else []
    meta = {"name": name, "uid": name, "creationTimestamp": made, "annotations": {f"{PREFIX}component": at}}
    status = {"phase": phase, "conditions": ready, "containerStatuses": [terminated]}
    return {"metadata": meta, "spec": {}, "status": status}


FAILED = pod("failed", "Failed", ended="2030-01-01T00:00:05Z")
SECOND = pod("second", "Running", made="2030-01-01T00:00:06Z")
SIBLING = pod("sibling", "Running")


@pytest.mark.parametrize("kind", SPECS)
def test_failed_pods_of_every_kind_start_the_grace(kind: str) -> None:
    assert decided(kind, {}, FAILED, SIBLING) == ("Resetting", "FoundFailedPods")
    assert decided(kind, {}, FAILED, SIBLING, grace="5m") == ("Running", "FoundFailedPods")
    assert decided(kind, {}, FAILED, SIBLING, grace="5m", terminalExitCodes="1") == (
        "Failed",
        "FoundFailedPods",
    )


@pytest.mark.parametrize("kind", SPECS)
def test_a_failed_pod_that_was_replaced_is_no_failure(kind: str) -> None:
    assert decided(kind, {}, FAILED, SECOND, warmupGracePeriodDuration="5h") == ("Running", "")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("Job", {"ready": 2}),
        ("Deployment", {"availableReplicas": 2}),
        ("JobSet", {"replicatedJobsStatus": [{"name": "a", "ready": 1}]}),
        ("LeaderWorkerSet", {"conditions": [{"type": "Available", "status": "True"}]}),
    ],
)
def test_nothing_is_missing_by_its_own_count(kind: str, status: Any) -> None:
    """Such as a Deployment whose evicted pods stay for their logs."""
    assert decided(kind, status, FAILED, SIBLING) == ("Running", "")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("RayCluster", {"state": "failed", "reason": "head is lost"}),
        ("RayJob", {"jobStatus": "FAILED", "jobDeploymentStatus": "Running"}),
        ("RayJob", {"jobDeploymentStatus": "Failed"}),
    ],
)
def test_a_state_that_may_pass_has_the_grace_first(kind: str, status: Any) -> None:
    assert decided(kind, status, SIBLING, grace="2h") == ("Running", "FailedComponent")
    assert decided(kind, status, SIBLING) == ("Resetting", "FailedComponent")


def test_what_tries_again_by_itself_is_judged_by_its_status_alone() -> None:
    """A task that is retried."""
    assert decided("PipelineRun", {}, FAILED, warmupGracePeriodDuration="5h") == ("Running", "")


def test_what_fails_for_good_has_no_grace() -> None:
    status = {"conditions": [{"type": "Failed", "status": "True"}]}
    assert decided("Job", status, grace="2h") == ("Resetting", "FailedComponent")


@pytest.mark.parametrize(
    ("pods", "whole", "counted"),
    [
        ([FAILED], False, ["failed"]),
        ([FAILED], True, []),
        ([FAILED, SIBLING], False, ["failed"]),
        ([FAILED, SECOND], False, []),
        ([FAILED, pod("done", "Succeeded", made="2030-01-01T00:00:06Z")], False, []),
        ([FAILED, pod("again", "Failed", made="2030-01-01T00:00:06Z")], False, ["failed", "again"]),
        # It never ran: no container states an end.
        ([pod("evicted", "Failed"), SECOND], False, []),
        ([pod("fatal", "Failed", ended=SINCE, code=42), SECOND], True, ["fatal"]),
    ],
)
def test_which_failed_pods_count(pods: list[Any], whole: bool, counted: list[str]) -> None:
    limits = tolerance({f"{PREFIX}terminalExitCodes": "42"})
    assert [one["metadata"]["name"] for one in unreplaced(pods, limits, whole=whole)] == counted


@pytest.mark.parametrize(
    ("text", "index"), [("0", 0), ("1", 1), ("2", None), ("", None), ("9" * 5000, None), ("²", None)]
)
def test_a_pod_names_its_component_or_belongs_to_all(text: str, index: int | None) -> None:
    assert component_of(pod("p", "Running", at=text), 2) == index


@pytest.mark.parametrize("text", ["9" * 5000, "7"])
async def test_an_annotation_of_a_pod_does_not_keep_its_appwrapper_running(text: str) -> None:
    class Marked(Controllers):
        def _lived(self, server: Server, pod: Any) -> bool:
            marks = {"metadata": {"annotations": {f"{PREFIX}component": text}}}
            server.patch(POD, Key(NS, pod["metadata"]["name"]), marks)
            return super()._lived(server, pod)

    done, _ = await watched(submitted(pod_template("sample")), Watch())
    assert phase(done.server) == "Succeeded"
    hostile = replace(done.scenario, cast=(done.scenario.cast[0], Marked))
    assert phase((await run(hostile)).server) == "Succeeded"


def test_failed_indexes_are_not_waited_for() -> None:
    job = wrapped_kind(job_template("x"))
    assert job is not None and job.health is not None and job.resource == JOB
    spec = {"completions": 8, "parallelism": 8, "backoffLimitPerIndex": 1}
    health = job.health({"metadata": {}, "spec": spec, "status": {"ready": 4, "failedIndexes": "1,3-5"}})
    assert health.whole and health.state.value == "ready"
