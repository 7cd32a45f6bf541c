"""PipelineRuns that really run, in a queue with one place, with the operator in the cluster."""

from __future__ import annotations

import json
from typing import Any

import yaml

from dev.image import ROOT
from tests.e2e.frameworks.conftest import NAMESPACE
from tests.e2e.hub import Hub, RefusedError

IMAGE = "docker.io/library/busybox:1.36"


def submit(hub: Hub, name: str, *, seconds: int = 1, priority: str = "", **annotations: str) -> str:
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = f"{NAMESPACE}-{priority}"
    step = {"name": "s", "image": IMAGE, "script": f"#!/bin/sh\nsleep {seconds}\n"}
    body = {
        "apiVersion": "tekton.dev/v1",
        "kind": "PipelineRun",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {f"fournos.dev/{key.replace('_', '-')}": one for key, one in annotations.items()},
        },
        "spec": {"pipelineSpec": {"tasks": [{"name": "t", "taskSpec": {"steps": [step]}}]}},
    }
    hub.run("create", "-f", "-", stdin=yaml.safe_dump(body))
    return name


def succeeded(run: dict[str, Any]) -> tuple[str, str]:
    shown = next(
        (one for one in run.get("status", {}).get("conditions", ()) if one["type"] == "Succeeded"), {}
    )
    return shown.get("status", ""), shown.get("reason", "")


def wait(hub: Hub, name: str, *wanted: str, timeout: float = 180.0) -> dict[str, Any]:
    """The run, once its condition has one of these reasons."""
    found: dict[str, Any] = hub.until(
        lambda: (
            hub.exists("pipelinerun", name)
            and succeeded(hub.get("pipelinerun", name))[1] in wanted
            and hub.get("pipelinerun", name)
        ),
        lambda: (
            f"{name} is not {' or '.join(wanted)}: "
            f"{hub.run('get', 'pipelinerun', name, '-o', 'yaml', check=False)[-2000:]}"
        ),
        timeout=timeout,
    )
    return found


def workload(hub: Hub, name: str) -> dict[str, Any]:
    (found,) = (
        one
        for one in hub.list("workloads.kueue.x-k8s.io")
        if one["metadata"]["ownerReferences"][0]["name"] == name
    )
    return found  # type: ignore[no-any-return]


def finished(hub: Hub, name: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        conditions = workload(hub, name)["status"].get("conditions", ())
        return next((one for one in conditions if one["type"] == "Finished"), None)

    found: dict[str, Any] = hub.until(look, lambda: f"the Workload of {name} is not finished", timeout=120)
    return found


def pods_running(hub: Hub, name: str) -> bool:
    pods = hub.list("pods", selector=f"tekton.dev/pipelineRun={name}")
    return any(pod["status"].get("phase") == "Running" for pod in pods)


def test_two_runs_take_turns(hub: Hub) -> None:
    submit(hub, "first", seconds=3)
    submit(hub, "second")
    assert hub.get("pipelinerun", "second")["spec"]["status"] == "PipelineRunPending"
    first, second = (wait(hub, name, "Succeeded", "Completed") for name in ("first", "second"))
    assert second["status"]["startTime"] >= first["status"]["completionTime"]
    for name in ("first", "second"):
        message = finished(hub, name)
        assert message["reason"] == "Succeeded" and "Tasks Completed: 1" in message["message"]


def test_an_evicted_run_is_cancelled_with_a_reason(hub: Hub) -> None:
    submit(hub, "drained", seconds=600)
    hub.until(lambda: pods_running(hub, "drained"), lambda: "no pod runs", timeout=180)

    def stop(policy: str) -> None:
        body = json.dumps({"spec": {"stopPolicy": policy}})
        hub.kubectl("patch", "clusterqueue", NAMESPACE, "--type=merge", "-p", body)

    stop("HoldAndDrain")
    try:
        run = wait(hub, "drained", "Cancelled")
    finally:
        stop("None")
    assert run["metadata"]["annotations"]["fournos.dev/stopped"].startswith("ClusterQueueStopped: ")
    message = finished(hub, "drained")
    assert message["reason"] == "Failed" and "ClusterQueueStopped" in message["message"]
    hub.until(lambda: not pods_running(hub, "drained"), lambda: "its pod runs on", timeout=120)


def test_the_sample_waits_runs_and_ends(hub: Hub) -> None:
    refusals = []

    def create() -> str:
        try:
            return hub.run("create", "-f", str(ROOT / "samples" / "pipelinerun.yaml"), "-o", "name")
        except RefusedError as error:  # the webhook's configuration may just have been applied
            refusals.append(str(error))
            return ""

    name = hub.until(create, lambda: f"refused: {refusals[-1]}").strip().rpartition("/")[2]
    run = wait(hub, name, "Succeeded", "Completed")
    assert run["metadata"]["annotations"]["fournos.dev/held"] == "queue"
