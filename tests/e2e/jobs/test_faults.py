"""Things that go wrong around a running job: no job is lost, none runs twice, no quota leaks."""

from __future__ import annotations

import json

from tests.e2e.hub import Hub


def pods_of_operator(hub: Hub) -> list[str]:
    pods = hub.operator.list("pods", selector="app.kubernetes.io/name=fournos")
    return [pod["metadata"]["name"] for pod in pods]


def leader(hub: Hub) -> str:
    """The pod that holds the lease; its identity begins with the pod's name."""
    holder = hub.get("lease", "fournos")["spec"].get("holderIdentity") or ""
    return str(holder.split("_")[0])


def runs_of(hub: Hub, name: str) -> list[str]:
    runs = hub.list("pipelineruns", selector=f"fournos.dev/job-name={name}")
    return [run["metadata"]["name"] for run in runs]


def no_quota_is_left(hub: Hub, *names: str) -> None:
    for name in names:
        hub.until(
            lambda name=name: (
                not hub.list("workloads.kueue.x-k8s.io", selector=f"fournos.dev/job-name={name}")
            ),
            lambda name=name: f"{name} is over and still holds quota",
        )


def test_killed_leaders_cost_no_job_anything(hub: Hub, operator_in_cluster: None) -> None:
    names = [hub.submit(f"survivor-{number}") for number in range(6)]
    for _ in range(2):
        led_by = hub.until(lambda: {leader(hub)} & set(pods_of_operator(hub)), lambda: "nobody leads")
        hub.operator.run("delete", "pod", *led_by, "--grace-period=0", "--force", "--wait=false")
    for name in names:
        assert hub.wait(name, timeout=240)["phase"] == "Succeeded"
        assert runs_of(hub, name) == [name]
    no_quota_is_left(hub, *names)


def test_kueue_away_for_a_while(hub: Hub) -> None:
    scale = ("-n", "kueue-system", "scale", "deployment/kueue-controller-manager")
    hub.kubectl(*scale, "--replicas=0")
    try:
        hub.kubectl(
            *("-n", "kueue-system", "wait", "--for=delete", "pod"),
            *("-l", "control-plane=controller-manager", "--timeout=180s"),
        )
        name = hub.submit("without-kueue")
        hub.wait(name, ["Resolving", "Pending"])
        hub.until(
            lambda: (
                hub.condition(name, "Retrying").get("status") == "True"
                or hub.status(name).get("phase") == "Pending"
            ),
            lambda: f"it is not said why it waits: {hub.status(name)}",
        )
    finally:
        hub.kubectl(*scale, "--replicas=1")
    assert hub.wait(name, timeout=240)["phase"] == "Succeeded"
    no_quota_is_left(hub, name)


def test_tekton_away_for_a_while(hub: Hub) -> None:
    scale = ("-n", "tekton-pipelines", "scale", "deployment/tekton-pipelines-controller")
    hub.kubectl(*scale, "--replicas=0")
    try:
        hub.kubectl(
            *("-n", "tekton-pipelines", "wait", "--for=delete", "pod"),
            *("-l", "app=tekton-pipelines-controller", "--timeout=180s"),
        )
        name = hub.submit("without-tekton")
        status = hub.wait(name, ["Running"])
        assert status["message"] == "PipelineRun created, waiting for execution"
        assert hub.exists("workload.kueue.x-k8s.io", name)
    finally:
        hub.kubectl(*scale, "--replicas=1")
    assert hub.wait(name, timeout=240)["phase"] == "Succeeded"
    no_quota_is_left(hub, name)


def test_a_deleted_run_fails_the_job_within_seconds(hub: Hub, slow: None) -> None:
    name = hub.submit("run-deleted")
    hub.wait(name, ["Running"])
    hub.run("delete", "pipelinerun", name, "--wait=false")
    status = hub.wait(name, timeout=120)
    assert (status["phase"], status["message"]) == ("Failed", "PipelineRun not found")
    no_quota_is_left(hub, name)


def test_a_deleted_workload_stops_the_run_and_queues_the_job_again(hub: Hub, slow: None) -> None:
    name = hub.submit("workload-deleted")
    hub.wait(name, ["Running"])
    hub.run("delete", "workload.kueue.x-k8s.io", name)
    hub.until(
        lambda: [a.get("outcome") for a in hub.status(name).get("attempts") or ()][:1] == ["Lost"],
        lambda: json.dumps(hub.status(name)),
        timeout=120,
    )
    hub.wait(name, ["Running"])
    assert runs_of(hub, name) == [name, f"{name}-r2"]
    hub.shutdown(name, "Terminate")
    assert hub.wait(name)["phase"] == "Stopped"
    no_quota_is_left(hub, name)


def test_who_runs_pods_beside_the_jobs_is_not_the_operator(hub: Hub, operator_in_cluster: None) -> None:
    """No account of the jobs' namespace reads the secrets namespace or writes a status as the operator."""
    accounts = [item["metadata"]["name"] for item in hub.list("serviceaccounts")]
    assert "fournos-resolver" in accounts and "fournos" not in accounts
    for account in accounts:
        who = f"--as=system:serviceaccount:{hub.namespace}:{account}"
        for words in (
            ("get", "secrets", "-n", hub.secrets_namespace),
            ("get", "secrets", "-n", hub.operator.namespace),
            ("update", "fournosjobs/status", "-n", hub.namespace),
            ("patch", "workloads/status.kueue.x-k8s.io", "-n", hub.namespace),
        ):
            answer = hub.kubectl("auth", "can-i", *words, who, check=False)
            assert answer.strip().endswith("no"), (account, words)
