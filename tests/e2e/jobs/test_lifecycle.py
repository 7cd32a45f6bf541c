"""FournosJobs on a real cluster: real Kueue, real Tekton, real pods, the operator under its own RBAC."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.hub import Hub


@pytest.fixture(scope="module")
def submitted(hub: Hub) -> None:
    """The jobs whose end alone is looked at. They wait for their pods together, before any run is slow."""
    hub.apply(pipeline("always-fails", "exit 7"), with_params(), with_a_large_result())
    hub.submit("succeeds", pipeline="fournos-full", hardware=None)
    params = {"model": "granite", "batches": [4, 8]}
    hub.submit(
        "params", pipeline="params", params=params, env={"SUITE": "nightly"}, timeouts={"pipeline": "15m"}
    )
    hub.submit("deleted-after")
    hub.submit("anywhere", cluster=None, hardware={"gpuType": "h200", "gpuCount": 2})
    retry = {"limit": 1, "backoff": "1s"}
    hub.submit("retried", pipeline="always-fails", retry=retry)
    nowhere = {"clusterless": True, "cluster": None, "hardware": None}
    hub.submit("retried-nowhere", pipeline="always-fails", retry=retry, **nowhere)
    hub.submit("large-result", pipeline="large-result", **nowhere)


def pipeline(name: str, script: str) -> dict[str, Any]:
    """One task with this script, and a resolver that leaves the job as it is."""
    step = {
        "name": "step",
        "image": "docker.io/library/busybox:1.36",
        "imagePullPolicy": "IfNotPresent",
        "script": f"#!/bin/sh\n{script}\n",
    }
    return {
        "apiVersion": "tekton.dev/v1",
        "kind": "Pipeline",
        "metadata": {
            "name": name,
            "annotations": {"fournos.dev/resolve-image": "docker.io/library/busybox:1.36"},
        },
        "spec": {"tasks": [{"name": "task", "taskSpec": {"steps": [step]}}]},
    }


def with_params() -> dict[str, Any]:
    """Succeeds with the parameters and the variable that the job sets, and with no others."""
    script = "echo $MODEL $BATCHES $SUITE; [ \"$MODEL $BATCHES $SUITE\" = 'granite 4 8 nightly' ]"
    declared = [{"name": "model", "default": "llama"}, {"name": "batches", "type": "array"}]
    found = pipeline("params", script)
    found["metadata"]["annotations"]["fournos.dev/env"] = "steps"
    found["spec"]["params"] = declared
    task = found["spec"]["tasks"][0]
    task["params"] = [
        {"name": "model", "value": "$(params.model)"},
        {"name": "first", "value": "$(params.batches[0])"},
        {"name": "second", "value": "$(params.batches[1])"},
    ]
    task["taskSpec"]["params"] = [{"name": param["name"]} for param in task["params"]]
    task["taskSpec"]["steps"][0]["env"] = [
        {"name": "MODEL", "value": "$(params.model)"},
        {"name": "BATCHES", "value": "$(params.first) $(params.second)"},
    ]
    return found


def with_a_large_result() -> dict[str, Any]:
    found = pipeline("large-result", "head -c 5000 /dev/zero | tr '\\0' x > $(results.fournos-results.path)")
    found["spec"]["tasks"][0]["taskSpec"]["results"] = [{"name": "fournos-results"}]
    return found


def test_parameters_and_variables_reach_the_steps(hub: Hub, submitted: None) -> None:
    status = hub.wait("params")
    assert status["phase"] == "Succeeded", status["message"]
    limits = hub.get("pipelinerun", "params")["spec"]["timeouts"]
    assert limits == {"pipeline": "15m0s", "tasks": "15m0s"}, "there are no finally tasks"


def test_a_job_succeeds_with_its_secrets_and_artifacts(hub: Hub, submitted: None) -> None:
    name = "succeeds"
    status = hub.wait(name)
    assert (status["phase"], status["message"]) == ("Succeeded", "Pipeline completed successfully")
    assert status["cluster"] == "cluster-1"
    assert status["pipelineRun"] == name
    assert status["resolved"]["hardware"] == {"gpuType": "a100", "gpuCount": 2}  # by the mock resolver
    assert status["observedGeneration"] == hub.get("fournosjob", name)["metadata"]["generation"]
    assert set(hub.task_pods(name)) == {"prepare", "run", "cleanup"}
    log = hub.run(
        "logs", "-l", f"tekton.dev/pipelineTask=run,fournos.dev/job-name={name}", "--all-containers"
    )
    assert "placeholder" in log
    run = hub.get("pipelinerun", name)
    assert run["metadata"]["ownerReferences"][0]["name"] == name
    assert not hub.exists("workload.kueue.x-k8s.io", name)
    assert "finalizers" not in hub.get("fournosjob", name)["metadata"]
    for secret in (f"{name}-kubeconfig", f"{name}-vault-placeholder"):
        assert hub.exists("secret", secret)
    reasons = {
        event["reason"] for event in hub.list("events.events.k8s.io") if event["regarding"]["name"] == name
    }
    assert {"Admitted", "Succeeded"} <= reasons


def test_deleting_a_finished_job_takes_everything_with_it(hub: Hub, submitted: None) -> None:
    name = "deleted-after"
    hub.wait(name)
    hub.run("delete", "fournosjob", name, "--wait=true")
    selector = f"fournos.dev/job-name={name}"
    for kind in ("pipelineruns", "secrets", "jobs", "pods", "workloads.kueue.x-k8s.io"):
        hub.until(
            lambda kind=kind: not hub.list(kind, selector=selector),
            lambda kind=kind: f"{kind} of {name} are left",
        )


def test_hardware_alone_finds_a_cluster_that_has_it(hub: Hub, submitted: None) -> None:
    status = hub.wait("anywhere")
    assert status["phase"] == "Succeeded"
    assert status["cluster"] in ("cluster-3", "cluster-4")


def test_a_failing_pipeline_is_retried(hub: Hub, submitted: None) -> None:
    status = hub.wait("retried", timeout=180)
    assert status["phase"] == "Failed"
    assert [(a["number"], a["outcome"], a["pipelineRun"]) for a in status["attempts"]] == [
        (1, "Failed", "retried"),
        (2, "Failed", "retried-r2"),
    ]


def test_a_clusterless_job_is_retried_without_a_cluster(hub: Hub, submitted: None) -> None:
    status = hub.wait("retried-nowhere", timeout=180)
    assert [(a["cluster"], a["outcome"]) for a in status["attempts"]] == [("[clusterless]", "Failed")] * 2
    selector = "fournos.dev/job-name=retried-nowhere"
    runs = hub.list("pipelineruns", selector=selector)
    assert len(runs) == 2 and not any("fournos.dev/result" in str(run["metadata"]) for run in runs)
    assert not hub.list("workloads.kueue.x-k8s.io", selector=selector)


def test_a_result_that_is_too_large_for_tekton_is_named(hub: Hub, submitted: None) -> None:
    status = hub.wait("large-result")
    assert status["phase"] == "Failed" and "fournos results push" in status["message"], status["message"]


def test_a_pruner_takes_no_result_with_a_run(hub: Hub) -> None:
    """It deletes the run while the operator is away: here, before it has looked."""
    name = hub.submit("pruned", pipeline="params", params={"model": "granite", "batches": ["4", "8"]})
    hub.until(lambda: hub.exists("pipelinerun", name), lambda: "there is no PipelineRun")
    assert "fournos.dev/result" in hub.get("pipelinerun", name)["metadata"]["finalizers"]
    hub.run("wait", "pipelinerun", name, "--for=condition=Succeeded=false", "--timeout=180s")
    hub.run("delete", "pipelinerun", name, "--wait=true", "--ignore-not-found")
    status = hub.wait(name)
    assert (status["phase"], [one["outcome"] for one in status["attempts"]]) == ("Failed", ["Failed"])
    assert "Tasks Completed" in status["message"]


def test_stop_runs_finally_tasks(hub: Hub, slow: None) -> None:
    name = hub.submit("stopped", pipeline="fournos-full")
    hub.wait(name, ["Running"])
    hub.until(lambda: "run" in hub.task_pods(name), lambda: "the task run does not start")
    hub.shutdown(name, "Stop")
    status = hub.wait(name)
    assert (status["phase"], status["message"]) == ("Stopped", "Job stopped by user")
    assert hub.get("pipelinerun", name)["spec"]["status"] == "CancelledRunFinally"
    assert "cleanup" in hub.task_pods(name)
    assert not hub.exists("workload.kueue.x-k8s.io", name)


def test_terminate_skips_finally_tasks(hub: Hub, slow: None) -> None:
    name = hub.submit("terminated", pipeline="fournos-full")
    hub.wait(name, ["Running"])
    hub.until(lambda: "run" in hub.task_pods(name), lambda: "the task run does not start")
    hub.shutdown(name, "Terminate")
    assert hub.wait(name)["phase"] == "Stopped"
    assert "cleanup" not in hub.task_pods(name)


def test_deleting_a_running_job_runs_finally_tasks_first(hub: Hub, slow: None) -> None:
    name = hub.submit("deleted-running", pipeline="fournos-full")
    hub.wait(name, ["Running"])
    hub.until(lambda: "run" in hub.task_pods(name), lambda: "the task run does not start")
    hub.run("delete", "fournosjob", name, "--wait=false")
    hub.until(lambda: "cleanup" in hub.task_pods(name), lambda: "finally tasks did not run")
    hub.until(lambda: not hub.exists("fournosjob", name), lambda: f"{name} does not go", timeout=120)
    hub.until(lambda: not hub.exists("pipelinerun", name), lambda: "its PipelineRun does not go")


def test_an_exclusive_job_waits_for_the_cluster_and_names_its_holder(hub: Hub, slow: None) -> None:
    first = hub.submit("exclusive-first", exclusive=True, hardware=None, cluster="cluster-2")
    hub.wait(first, ["Running"])
    second = hub.submit("exclusive-second", exclusive=True, hardware=None, cluster="cluster-2")
    hub.wait(second, ["Pending"])
    expected = f"Cluster cluster-2 is exclusively locked by job {first}, waiting for it to finish"
    hub.until(lambda: hub.status(second).get("message") == expected, lambda: str(hub.status(second)))
    hub.shutdown(first, "Terminate")
    hub.wait(first)
    hub.wait(second, ["Admitted", "Running", "Succeeded"])
    hub.shutdown(second, "Terminate")
    hub.wait(second)


def test_a_lock_holds_the_cluster_and_lets_go(hub: Hub) -> None:
    lock = hub.submit(
        "lock", lockOnly=True, exclusive=True, cluster="cluster-4", hardware=None, executionEngine=None
    )
    status = hub.wait(lock, ["Admitted"])
    assert status["message"] == "Cluster lock held on cluster-4"
    waiting = hub.submit("behind-lock", cluster="cluster-4", hardware={"gpuType": "h200", "gpuCount": 1})
    hub.wait(waiting, ["Pending"])
    hub.until(
        lambda: f"exclusively locked by job {lock}" in (hub.status(waiting).get("message") or ""),
        lambda: str(hub.status(waiting)),
    )
    hub.shutdown(lock, "Stop")
    assert hub.wait(lock)["phase"] == "Stopped"
    assert hub.wait(waiting)["phase"] == "Succeeded"
    assert not hub.list("pipelineruns", selector=f"fournos.dev/job-name={lock}")
