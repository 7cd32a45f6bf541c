"""What a tenant with a queue of its own, or with PipelineRuns in the jobs' namespace, does not get."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.hub import Hub, RefusedError

TENANT = "fournos-e2e-tenant"
CLASS = "e2e-as-high-as-a-lock"
SLOT = "fournos/cluster-slot"


@pytest.fixture
def tenant(hub: Hub, operator_in_cluster: None) -> Iterator[Hub]:
    """A namespace that may queue, its LocalQueue, and a ServiceAccount with `edit`."""
    labels = {"fournos.dev/queue-access": "true"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TENANT, "labels": labels}}
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": CLASS},
        "value": 1_000_000_000,
    }
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "fournos-queue"},
        "spec": {"clusterQueue": "fournos-queue"},
    }
    hub.apply(namespace, priority)
    hub.apply(queue, namespace=TENANT)
    hub.kubectl("-n", TENANT, "create", "serviceaccount", "tenant")
    account = f"--serviceaccount={TENANT}:tenant"
    hub.kubectl("-n", TENANT, "create", "rolebinding", "tenant", "--clusterrole=edit", account)
    yield Hub(hub.kubeconfig, TENANT)
    hub.run("delete", "fournosjob", "held", "--ignore-not-found")
    hub.kubectl("delete", "namespace", TENANT)
    hub.kubectl("delete", "priorityclass", CLASS)


def job(name: str, cluster: str, **pod: Any) -> str:
    """A Job that asks for a whole cluster."""
    slots = {"requests": {SLOT: "100"}, "limits": {SLOT: "100"}}
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {"fournos.dev/cluster": cluster},
        "containers": [{"name": "c", "image": "i", "resources": slots}],
        **pod,
    }
    labels = {"kueue.x-k8s.io/queue-name": "fournos-queue"}
    return yaml.safe_dump(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels},
            "spec": {"suspend": True, "template": {"spec": spec}},
        }
    )


def test_the_priority_of_a_tenant_s_pods_pushes_out_no_lock(hub: Hub, tenant: Hub) -> None:
    hub.submit(
        "held", lockOnly=True, exclusive=True, cluster="cluster-4", executionEngine=None, hardware=None
    )
    hub.wait("held", ["Admitted"])
    hub.run("patch", "workload", "held", "--type=merge", "-p", '{"spec":{"priority":1000000000}}')
    me = f"--as=system:serviceaccount:{TENANT}:tenant"
    critical = job("critical", "cluster-4", priorityClassName="system-cluster-critical")
    with pytest.raises(RefusedError, match="name a WorkloadPriorityClass in the label"):
        tenant.run(me, "create", "-f", "-", stdin=critical)
    for body in (job("grab", "cluster-4", priorityClassName=CLASS), job("after", "cluster-4")):
        tenant.run(me, "create", "-f", "-", stdin=body)

    def queued() -> list[str]:
        return [one["metadata"]["ownerReferences"][0]["name"] for one in tenant.list("workloads")]

    # Kueue has then refused to queue the Job before it.
    tenant.until(lambda: "after" in queued(), lambda: f"no Workload of the other Job: {queued()}")
    assert queued() == ["after"]
    assert tenant.get("job", "grab")["spec"]["suspend"] is True
    assert hub.status("held")["phase"] == "Admitted"
    label = '{"metadata":{"labels":{"kueue.x-k8s.io/priority-class":"manual"}}}'
    tenant.run(me, "patch", "job", "grab", "--type=merge", "-p", label)
    tenant.until(lambda: "grab" in queued(), lambda: "a WorkloadPriorityClass does not help it")
    assert hub.status("held")["phase"] == "Admitted"


def test_no_pod_of_a_user_runs_as_the_operator(hub: Hub, operator_in_cluster: None) -> None:
    rules = ["--verb=create", "--resource=pipelineruns.tekton.dev,taskruns.tekton.dev,jobs.batch,pods"]
    hub.run("create", "serviceaccount", "user")
    hub.run("create", "serviceaccount", "fournos")  # as where the operator lives beside the jobs
    hub.run("create", "role", "user", *rules)
    hub.run("create", "rolebinding", "user", "--role=user", f"--serviceaccount={hub.namespace}:user")
    container = {"name": "c", "image": "i", "command": ["true"]}
    pod = {"serviceAccountName": "fournos", "restartPolicy": "Never", "containers": [container]}
    task = {"taskSpec": {"steps": [container]}, "serviceAccountName": "fournos"}
    run = {
        "pipelineSpec": {"tasks": [{"name": "t", "taskSpec": task["taskSpec"]}]},
        "taskRunTemplate": {"serviceAccountName": "fournos"},
    }
    try:
        for version, kind, spec in (
            ("v1", "Pod", pod),
            ("batch/v1", "Job", {"template": {"spec": pod}}),
            ("tekton.dev/v1", "PipelineRun", run),
            ("tekton.dev/v1", "TaskRun", task),
        ):
            body = {"apiVersion": version, "kind": kind, "metadata": {"name": "steal"}, "spec": spec}
            with pytest.raises(RefusedError, match="ServiceAccount fournos is for an operator"):
                hub.run(
                    f"--as=system:serviceaccount:{hub.namespace}:user",
                    "create",
                    "-f",
                    "-",
                    stdin=json.dumps(body),
                )
        # Where an administrator lets such a Job through, its controller still gets no pod.
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "steal"},
            "spec": {"template": {"spec": pod}},
        }
        hub.apply(body)
        refusal = "ServiceAccount fournos is for an operator"
        words = ("get", "events", "--field-selector=involvedObject.name=steal", "-o", "json")
        hub.until(lambda: refusal in hub.run(*words), lambda: f"no refusal: {hub.run(*words)}")
        assert not hub.list("pods", selector="job-name=steal")
    finally:
        for name in (
            "serviceaccount/user",
            "serviceaccount/fournos",
            "role/user",
            "rolebinding/user",
            "job/steal",
        ):
            hub.run("delete", name, "--ignore-not-found")
    # The controllers of its own Deployment still make its pods.
    hub.operator.run("rollout", "restart", "deployment/fournos")
    hub.operator.run("rollout", "status", "deployment/fournos", "--timeout=180s")
