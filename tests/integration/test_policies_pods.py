"""The admission policies on pods, what makes them, and their priority, on a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from dev import resources
from fournos.api.pod_rights import minicluster_reach
from tests.integration.conftest import CRDS, PLURALS, Server
from tests.integration.test_policies import (  # noqa: F401
    USERS,
    As,
    grant,
    reference,
    who,
    workload,
)
from tests.waiting import until

PODS_CLASS = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "system-cluster-critical"}


async def test_kueue_gives_no_workload_the_priority_of_pods(who: As, server: Server) -> None:  # noqa: F811
    """Kueue, with all of its rights, copies the priority of a PriorityClass of pods."""
    api = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "kueue"},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "kueue-manager-role"},
        "subjects": [{"kind": "ServiceAccount", "name": "kueue", "namespace": who.namespace}],
    }
    await server.apply(f"/apis/{api}/v1/namespaces/{who.namespace}/rolebindings/kueue", binding)
    plain = workload("plain", priority=200, priorityClassRef={**PODS_CLASS, "name": "team"})

    async def entitled() -> bool:
        return (await who("kueue", "POST", who.workloads, plain))[0] == 201

    await until(entitled, "Kueue's rights are not there", pause=0.1)
    for priority in (201, 1_000_000_000, 2_000_000_000):
        body = workload("high", priority=priority, priorityClassRef=PODS_CLASS)
        await who.may_not("kueue", "POST", who.workloads, body, "no priorityClassName of pods")
        await who.may_not("kueue", "POST", who.workloads, workload("high", priority=priority))
    urgent = workload("urgent", priority=999_999_999, priorityClassRef=reference("urgent"))
    await who.may("kueue", "POST", who.workloads, urgent)
    held = workload("held", priority=1_000_000_000, priorityClassRef=reference("urgent"))
    await who.may_not("kueue", "POST", who.workloads, held, "for locks of clusters only")
    path = f"{who.workloads}/plain"
    await who.may("kueue", "PATCH", path, {"spec": {"active": False}})
    await who.may_not("kueue", "PATCH", path, {"spec": {"priority": 500}})
    before = workload("before", priority=2_000_000_000, priorityClassRef=PODS_CLASS)
    await who.may("", "POST", who.workloads, before)  # as one that is older than the policy
    path = f"{who.workloads}/before"
    await who.may("kueue", "PATCH", path, {"metadata": {"finalizers": ["kueue.x-k8s.io/resource-in-use"]}})
    await who.may("kueue", "PATCH", path, {"metadata": {"finalizers": None}, "spec": {"active": False}})


CRITICAL = {"restartPolicy": "Never", "priorityClassName": "system-node-critical"}
CONTAINERS = [{"name": "c", "image": "i"}]
QUEUED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Job": ("batch/v1", "jobs", {"template": {"spec": {**CRITICAL, "containers": CONTAINERS}}}),
    "PipelineRun": (
        "tekton.dev/v1",
        "pipelineruns",
        {"pipelineRef": {"name": "p"}, "taskRunTemplate": {"podTemplate": CRITICAL}},
    ),
    "AppWrapper": (
        "workload.codeflare.dev/v1beta2",
        "appwrappers",
        {
            "components": [
                {
                    "template": {
                        "apiVersion": "batch/v1",
                        "kind": "Job",
                        "metadata": {"name": "x"},
                        "spec": {"template": {"spec": {**CRITICAL, "containers": CONTAINERS}}},
                    }
                }
            ]
        },
    ),
}


FOREIGN: dict[str, tuple[str, str, dict[str, Any]]] = {
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        "jobsets",
        {
            "replicatedJobs": [
                {"name": "fair", "template": {"spec": {"template": {"spec": {"containers": CONTAINERS}}}}},
                {"name": "a", "template": {"spec": {"template": {"spec": {**CRITICAL, "containers": []}}}}},
            ]
        },
    ),
    "LeaderWorkerSet": (
        "leaderworkerset.x-k8s.io/v1",
        "leaderworkersets",
        {"leaderWorkerTemplate": {"workerTemplate": {"spec": {**CRITICAL, "containers": CONTAINERS}}}},
    ),
}
"""Kinds of Kueue's own integrations whose projects are not installed here."""


@pytest.fixture
async def foreign_kinds(server: Server) -> AsyncIterator[None]:
    """The definitions of FOREIGN, with any content."""
    names = []
    for kind, (version, plural, _) in FOREIGN.items():
        group, _, name = version.partition("/")
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        served = {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        spec = {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [served],
        }
        names.append(f"{plural}.{group}")
        meta = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        await server.apply(f"{CRDS}/{names[-1]}", {**meta, "metadata": {"name": names[-1]}, "spec": spec})
    yield
    for name in names:
        await server("DELETE", f"{CRDS}/{name}")
    for name in names:  # the next test would change what is on its way out

        async def gone(name: str = name) -> bool:
            return (await server("GET", f"{CRDS}/{name}"))[0] == 404

        await until(gone, f"{name} is not deleted")


@pytest.mark.usefixtures("foreign_kinds")
@pytest.mark.parametrize("kind", FOREIGN)
async def test_a_job_of_another_project_is_refused_a_priority_of_the_system(
    who: As,  # noqa: F811
    server: Server,
    kind: str,
) -> None:
    version, plural, spec = FOREIGN[kind]
    rule = {"apiGroups": [version.partition("/")[0]], "resources": [plural], "verbs": ["create"]}
    await grant(server, who.namespace, "author", [rule])
    path = f"/apis/{version}/namespaces/{who.namespace}/{plural}"

    def body(**labels: str) -> dict[str, Any]:
        meta = {"name": "x", "labels": {f"kueue.x-k8s.io/{name}": text for name, text in labels.items()}}
        return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}

    await who.until_refused("author", "POST", path, body(**{"queue-name": "q"}))
    text = "name a WorkloadPriorityClass in the label"
    await who.may_not("author", "POST", path, body(**{"queue-name": "q"}), text)
    await who.may("author", "POST", path, body(), dryRun="All")
    await who.may("author", "POST", path, body(**{"queue-name": "q", "priority-class": "low"}), dryRun="All")


@pytest.mark.parametrize("kind", QUEUED)
async def test_the_author_of_a_queued_job_sees_why_its_priority_is_refused(
    who: As,  # noqa: F811
    kind: str,
) -> None:
    version, plural, spec = QUEUED[kind]
    path = f"/apis/{version}/namespaces/{who.namespace}/{plural}"

    def body(**labels: str) -> dict[str, Any]:
        meta = {"name": "x", "labels": {f"kueue.x-k8s.io/{name}": text for name, text in labels.items()}}
        return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}

    text = "name a WorkloadPriorityClass in the label"
    await who.until_refused("user", "POST", path, body(**{"queue-name": "q"}))
    await who.may_not("user", "POST", path, body(**{"queue-name": "q"}), text)
    await who.may("user", "POST", path, body(), dryRun="All")
    await who.may("user", "POST", path, body(**{"queue-name": "q", "priority-class": "low"}), dryRun="All")


# --- who runs as an operator -----------------------------------------------------------------------------

TAKEN = "ServiceAccount fournos is for"
ALONE = {"serviceAccountName": "fournos"}
ACCOUNT = {**ALONE, "containers": CONTAINERS}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": ACCOUNT}
JOB = {"template": {"spec": {**ACCOUNT, "restartPolicy": "Never"}}}
SELECTOR = {"matchLabels": {"a": "b"}}
STEPS = {"steps": [{"name": "s", "image": "i"}]}
INLINE = {"pipelineSpec": {"tasks": [{"name": "t", "taskSpec": STEPS}]}}
WRAPPED = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": ACCOUNT}
AS_OPERATOR: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("v1", "Pod", ACCOUNT),
    *(
        ("apps/v1", kind, {"selector": SELECTOR, "template": TEMPLATE})
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    ),
    ("v1", "ReplicationController", {"selector": {"a": "b"}, "template": TEMPLATE}),
    ("batch/v1", "Job", JOB),
    ("batch/v1", "CronJob", {"schedule": "@daily", "jobTemplate": {"spec": JOB}}),
    ("tekton.dev/v1", "PipelineRun", {**INLINE, "taskRunTemplate": ALONE}),
    ("tekton.dev/v1", "PipelineRun", {**INLINE, "taskRunSpecs": [{"pipelineTaskName": "t", **ALONE}]}),
    ("tekton.dev/v1", "TaskRun", {"taskSpec": STEPS, **ALONE}),
    ("flux-framework.org/v1alpha2", "MiniCluster", {"pod": ALONE, "containers": [{"image": "i"}]}),
    ("workload.codeflare.dev/v1beta2", "AppWrapper", {"components": [{"template": WRAPPED}]}),
    (
        "workload.codeflare.dev/v1beta2",
        "AppWrapper",
        {"components": [{"template": {**WRAPPED, "kind": "Foo", "spec": {"template": TEMPLATE}}}]},
    ),
)
EVERYTHING = [
    *USERS,
    {"apiGroups": ["", "apps", "batch"], "resources": ["*"], "verbs": ["create", "get", "patch", "delete"]},
]


def path_of(who: As, version: str, plural: str) -> str:  # noqa: F811
    return f"/{'apis' if '/' in version else 'api'}/{version}/namespaces/{who.namespace}/{plural}"


@pytest.fixture
async def builder(who: As, server: Server) -> str:  # noqa: F811
    """An account that may make everything in the namespace, as `edit` and more, but `use` no account."""
    await grant(server, who.namespace, "image-trigger-controller", EVERYTHING, home="openshift-infra")
    await grant(server, who.namespace, "builder", EVERYTHING)
    probe = {"metadata": {"name": "probe"}, "spec": ACCOUNT}
    await who.until_refused("builder", "POST", path_of(who, "v1", "pods"), probe)
    return "builder"


async def test_nothing_that_makes_pods_names_an_operator(who: As, builder: str) -> None:  # noqa: F811
    for version, kind, spec in AS_OPERATOR:
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
        await who.may_not(builder, "POST", path_of(who, version, f"{kind.lower()}s"), body, TAKEN)
    template = {"apiVersion": "v1", "kind": "Foo", "metadata": {"name": "x"}, "spec": {"template": "a name"}}
    version = "workload.codeflare.dev/v1beta2"
    wrapper = {"apiVersion": version, "kind": "AppWrapper", "metadata": {"name": "x"}}
    wrapper |= {"spec": {"components": [{"template": template}]}}
    await who.may(builder, "POST", path_of(who, version, "appwrappers"), wrapper)
    other = {"metadata": {"name": "other"}, "spec": {**ACCOUNT, "serviceAccountName": "fournos-resolver"}}
    await who.may(builder, "POST", path_of(who, "v1", "pods"), other, dryRun="All")


async def test_no_token_of_an_operator_is_given_away(who: As, builder: str) -> None:  # noqa: F811
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    accounts = path_of(who, "v1", "serviceaccounts")
    await who.may_not(builder, "POST", f"{accounts}/fournos/token", request, TAKEN)
    await who.may(builder, "POST", f"{accounts}/fournos-resolver/token", request)
    secret = {
        "metadata": {"name": "token", "annotations": {"kubernetes.io/service-account.name": "fournos"}},
        "type": "kubernetes.io/service-account-token",
    }
    await who.may_not(builder, "POST", path_of(who, "v1", "secrets"), secret, TAKEN)
    await who.may(builder, "POST", path_of(who, "v1", "secrets"), {"metadata": {"name": "plain"}})


async def test_an_operator_s_own_deployment_runs_as_it(who: As, server: Server, builder: str) -> None:  # noqa: F811
    """The Deployment is an administrator's; the controllers make the rest, and nobody changes what runs."""
    deployments, replicas, pods = (
        path_of(who, version, plural)
        for version, plural in (("apps/v1", "deployments"), ("apps/v1", "replicasets"), ("v1", "pods"))
    )
    spec = {"replicas": 0, "selector": SELECTOR, "template": TEMPLATE}
    await who.may("", "POST", deployments, {"metadata": {"name": "fournos"}, "spec": spec})
    path = f"{deployments}/fournos"
    await who.may(builder, "PATCH", path, {"spec": {"replicas": 1}})
    await who.may(builder, "PATCH", path, {"metadata": {"annotations": {"seen": "yes"}}})
    foreign = [{"name": "c", "image": "foreign"}]
    image = {"spec": {"template": {"spec": {"containers": foreign}}}}
    await who.may_not(builder, "PATCH", path, image, TAKEN)
    openshift: Any = ("image-trigger-controller", "PATCH", path, image)
    await who.may_not(*openshift, TAKEN, namespace="openshift-infra")
    triggers = {"metadata": {"annotations": {"image.openshift.io/triggers": "[]"}}}
    await who.may_not(builder, "PATCH", path, triggers, TAKEN)
    await who.may("", "PATCH", path, triggers)
    await who.may(*openshift, namespace="openshift-infra", dryRun="All")

    def owned(kind: str, **spec: Any) -> dict[str, Any]:
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "u", "controller": True}
        return {"metadata": {"name": "x", "labels": {"a": "b"}, "ownerReferences": [owner]}, "spec": spec}

    made = owned("Deployment", selector=SELECTOR, template=TEMPLATE)
    pod = owned("ReplicaSet", **ACCOUNT)

    async def kueue_knows_the_owner() -> bool:
        """Kueue's webhook looks up the owner of each new pod in its cache, which follows the API server."""
        answer = await who("replicaset-controller", "POST", pods, pod, namespace="kube-system", dryRun="All")
        return "mpod.kb.io" not in answer[1]

    for account, where, body in (
        ("deployment-controller", replicas, made),
        ("replicaset-controller", pods, pod),
    ):
        await who.may(account, "POST", where, body, namespace="kube-system", dryRun="All")
        await who.may_not(builder, "POST", where, body, TAKEN)
        if where == replicas:
            await who.may("", "POST", replicas, {"metadata": {"name": "x"}, "spec": spec})
            await until(kueue_knows_the_owner, "Kueue does not see the ReplicaSet", pause=0.1)
    for account in ("job-controller", "replication-controller", "daemon-set-controller"):
        await who.may_not(account, "POST", pods, pod, TAKEN, namespace="kube-system")
    await who.may("", "POST", pods, {"metadata": {"name": "x"}, "spec": ACCOUNT})
    for change in ({"containers": foreign}, {"activeDeadlineSeconds": 1}):
        status, message = await who(builder, "PATCH", f"{pods}/x", {"spec": change})
        assert (status == 200) == ("containers" not in change), message
    await who.may(builder, "PATCH", f"{pods}/x", {"metadata": {"labels": {"seen": "yes"}}})


# --- the tasks of a PipelineRun --------------------------------------------------------------------------


async def test_only_tekton_makes_the_tasks_of_a_pipeline_run(who: As, server: Server) -> None:  # noqa: F811
    """Tekton adopts what names its PipelineRun; who may update pipelineruns/status is Tekton."""
    tasks = {"apiGroups": ["tekton.dev"], "resources": ["taskruns", "customruns"], "verbs": ["*"]}
    await grant(server, who.namespace, "developer", [tasks])
    status = {"apiGroups": ["tekton.dev"], "resources": ["pipelineruns/status"], "verbs": ["update"]}
    await grant(server, who.namespace, "tekton", [tasks, status])
    labels = {"tekton.dev/pipelineRun": "victim"}
    run = {"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "metadata": {"name": "victim"}}
    path = f"/apis/tekton.dev/v1/namespaces/{who.namespace}/pipelineruns"
    _, made = await server("POST", path, {**run, "spec": {"pipelineRef": {"name": "p"}}})
    owner = {
        "apiVersion": run["apiVersion"],
        "kind": "PipelineRun",
        "name": "victim",
        "uid": made["metadata"]["uid"],
    }

    def of(kind: str, name: str, **meta: Any) -> dict[str, Any]:
        task = {"apiVersion": "example.com/v1", "kind": "Wait"} if kind == "CustomRun" else None
        spec = {"customRef": task} if task else {"taskSpec": {"steps": [{"name": "s", "image": "i"}]}}
        version = "v1beta1" if task else "v1"
        meta = {"name": name, "namespace": who.namespace, **meta}
        return {"apiVersion": f"tekton.dev/{version}", "kind": kind, "metadata": meta, "spec": spec}

    refused = "only Tekton (the right to update pipelineruns/status)"
    for kind, plural in (("TaskRun", "v1/{}/taskruns"), ("CustomRun", "v1beta1/{}/customruns")):
        path = f"/apis/tekton.dev/{plural.format(f'namespaces/{who.namespace}')}"
        forged: tuple[dict[str, Any], ...] = (
            {"labels": labels},
            {"ownerReferences": [owner]},
            {"ownerReferences": [{**owner, "controller": True}]},
        )
        probe = ("developer", "POST", path, of(kind, "x", **forged[0]))
        await who.until_refused(*probe)
        for meta in forged:
            await who.may_not("developer", "POST", path, of(kind, "forged", **meta), refused)
        await who.may("developer", "POST", path, of(kind, "own"))
        for meta in forged:
            await who.may_not("developer", "PATCH", f"{path}/own", {"metadata": meta}, refused)
        await who.may("tekton", "POST", path, of(kind, "real", labels=labels, ownerReferences=[owner]))
        change = {"metadata": {"annotations": {"a": "b"}, "ownerReferences": None}}
        await who.may("developer", "PATCH", f"{path}/real", change)
        await who.may_not(
            "developer", "PATCH", f"{path}/real", {"metadata": {"ownerReferences": [owner]}}, refused
        )


# --- MiniClusters -----------------------------------------------------------------------------------------

PLAIN: dict[str, Any] = {"image": "i", "volumes": {"d": {"path": "/d", "claimName": "data"}}}


def with_volume(**source: str) -> dict[str, Any]:
    return {"containers": [{"image": "i", "volumes": {"d": {"path": "/d", **source}}}]}


def secured(**context: Any) -> dict[str, Any]:
    return {"containers": [{"image": "i", "securityContext": context}]}


REACHING: tuple[dict[str, Any], ...] = (
    {"pod": {"serviceAccountName": "pipeline"}},
    {"pod": {"hostPID": True}},
    {"pod": {"hostIPC": True}},
    {"flux": {"mungeSecret": "s"}},
    {"containers": [{"image": "i", "secrets": {"A": {"name": "s", "key": "k"}}}]},
    {"services": [{"name": "s", "image": "i", "volumes": {"d": {"path": "/d", "secretName": "s"}}}]},
    with_volume(secretName="s"),
    with_volume(hostPath="/"),
    with_volume(csiDriver="secrets-store.csi.k8s.io"),
    secured(privileged=True),
    secured(addCapabilities=["SYS_ADMIN"]),
    secured(capabilities={"add": ["SYS_ADMIN"]}),
    secured(seccompProfile={"type": "Unconfined"}),
    {"pod": {"annotations": {"container.apparmor.security.beta.kubernetes.io/x": "unconfined"}}},
    {"flux": {"container": {"securityContext": {"privileged": True}}}},
    {"pod": {"labels": {"app": "payments"}}},
    {"pod": {"annotations": {"team": "a"}}},
    {"pod": {"runtimeClassName": "kata-privileged"}},
    {"pod": {"automountServiceAccountToken": True}},
    {"pod": {"schedulerName": "mine"}},
    {"pod": {"tolerations": [{"operator": "Exists"}]}},
    {"pod": {"securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}]}}},
    {"containers": [{"image": "i", "imagePullSecret": "private-registry"}]},
    {"services": [{"name": "s", "image": "i", "imagePullSecret": "private-registry"}]},
    {"flux": {"container": {"imagePullSecret": "private-registry"}}},
    {"containers": [{"image": "i", "resources": {"claims": [{"name": "gpu"}]}}]},
    {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu-of-another"}]},
    secured(seccompProfile={"type": "Localhost", "localhostProfile": "p"}),
)
ORDINARY: tuple[dict[str, Any], ...] = (
    {"containers": [PLAIN]},
    {"pod": {"serviceAccountName": "default"}},
    with_volume(configMapName="c"),
    with_volume(),
    secured(runAsUser=1000, runAsNonRoot=True, capabilities={"drop": ["ALL"]}, privileged=False),
    secured(seccompProfile={"type": "RuntimeDefault"}),
    {
        "pod": {
            "automountServiceAccountToken": False,
            "hostPID": False,
            "labels": {},
            "restartPolicy": "Never",
        }
    },
    {"pod": {"nodeSelector": {"pool": "a"}, "resources": {"cpu": "1"}, "securityContext": {"fsGroup": 1}}},
    {"services": [{"name": "s", "image": "i", "imagePullSecret": "", "ports": [80]}], "flux": {"wrap": "x"}},
)


def minicluster(spec: dict[str, Any], **fields: Any) -> dict[str, Any]:
    body = {"containers": [{"image": "i"}], **spec, **fields}
    version = "flux-framework.org/v1alpha2"
    return {"apiVersion": version, "kind": "MiniCluster", "metadata": {"name": "x"}, "spec": body}


async def test_a_minicluster_reaches_no_further_than_its_author(who: As, server: Server) -> None:  # noqa: F811
    for policy in resources.load("deploy/minicluster/policies.yaml"):
        await server.apply(f"{PLURALS[policy['kind']]}/{policy['metadata']['name']}", policy)
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}
    await grant(server, who.namespace, "builder", [*USERS, pods])
    alone = {"apiGroups": ["flux-framework.org"], "resources": ["miniclusters/pods"], "verbs": ["create"]}
    await grant(server, who.namespace, "entitled", [*USERS, alone])
    path = path_of(who, "flux-framework.org/v1alpha2", "miniclusters")
    await who.until_refused("user", "POST", path, minicluster(REACHING[1]))
    for spec in REACHING:
        assert minicluster_reach(minicluster(spec)["spec"]), spec
        await who.may_not("user", "POST", path, minicluster(spec), "for who may create pods")
        for account in ("builder", "entitled"):
            await who.may(account, "POST", path, minicluster(spec), dryRun="All")
    for spec in ORDINARY:
        assert not minicluster_reach(minicluster(spec)["spec"]), spec
        await who.may("user", "POST", path, minicluster(spec), dryRun="All")
    await who.may("user", "POST", path, minicluster({}, suspend=True))
    await who.may_not("user", "PATCH", f"{path}/x", {"spec": REACHING[1]}, "for who may create pods")
    await who.may("builder", "PATCH", f"{path}/x", {"spec": REACHING[1]})
    await who.may("user", "PATCH", f"{path}/x", {"spec": {"size": 2, "maxSize": 3}})
    image = {"spec": {"containers": [{"image": "another"}]}}
    await who.may_not("user", "PATCH", f"{path}/x", image, "for who may create pods")
    await who.may("user", "PATCH", f"{path}/x", {"spec": {"suspend": False}})
