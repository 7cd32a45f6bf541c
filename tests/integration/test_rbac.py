"""The manifests' rights, checked with the API server: what each ServiceAccount may do, and must not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from dev import resources
from tests.integration.conftest import Server
from tests.waiting import until

RBAC = "/apis/rbac.authorization.k8s.io/v1"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Role": RBAC + "/namespaces/{namespace}/roles",
    "RoleBinding": RBAC + "/namespaces/{namespace}/rolebindings",
    "ClusterRole": RBAC + "/clusterroles",
    "ClusterRoleBinding": RBAC + "/clusterrolebindings",
    "ValidatingAdmissionPolicy": POLICIES + "/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": POLICIES + "/validatingadmissionpolicybindings",
}


@pytest.fixture
async def secrets_namespace(server: Server, namespace: str) -> AsyncIterator[str]:
    name = f"{namespace}-secrets"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    status, answer = await server("POST", "/api/v1/namespaces", body)
    assert status == 201, answer
    yield name
    await server("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
async def rights(server: Server, namespace: str, secrets_namespace: str) -> AsyncIterator[None]:
    bindings = []
    for obj in resources.rbac(namespace, secrets_namespace):
        meta = obj["metadata"]
        path = PLURALS[obj["kind"]].format(namespace=meta.get("namespace", namespace))
        await server.apply(f"{path}/{meta['name']}", obj)
        if obj["kind"] != "ClusterRole" and "/namespaces/" not in path:
            bindings.append(f"{path}/{meta['name']}")
    yield
    for path in bindings:
        await server("DELETE", path)


def parse(right: str) -> tuple[str, dict[str, str]]:
    """ "verb resource[/sub].group @where": where is own, secrets, other or cluster."""
    verb, what, where = right.split()
    name, _, group = what.partition(".")
    resource, _, subresource = name.partition("/")
    attributes = {"verb": verb, "resource": resource, "group": group, "subresource": subresource}
    return where.removeprefix("@"), attributes


JOBS = "fournosjobs.fournos.dev"
MAY = {
    "fournos": [
        *(f"{verb} {JOBS} @own" for verb in ("get", "list", "watch", "create", "patch", "delete")),
        "patch fournosjobs/status.fournos.dev @own",
        "update fournosjobs/finalizers.fournos.dev @own",
        *(
            f"{verb} workloads.kueue.x-k8s.io @own"
            for verb in ("get", "list", "watch", "create", "patch", "delete")
        ),
        "patch workloads/status.kueue.x-k8s.io @own",
        *(f"{verb} pipelineruns.tekton.dev @own" for verb in ("list", "watch", "create", "patch", "delete")),
        "watch pipelines.tekton.dev @own",
        *(f"{verb} jobs.batch @own" for verb in ("list", "watch", "create", "delete")),
        "list pods @own",
        "delete pods @own",
        "get pods/log @own",
        *(f"{verb} secrets @own" for verb in ("get", "create", "patch", "delete")),
        "get secrets @secrets",
        "create events.events.k8s.io @own",
        "create leases.coordination.k8s.io @own",
        *(
            f"{verb} {resource}.kueue.x-k8s.io @cluster"
            for verb in ("get", "list", "watch")
            for resource in ("clusterqueues", "resourceflavors", "workloadpriorityclasses")
        ),
        "get localqueues.kueue.x-k8s.io @own",
        "get admissionchecks.kueue.x-k8s.io @cluster",
    ],
    "fournos-resolver": [f"get {JOBS} @own", f"patch {JOBS} @own"],
    "default": [f"get {JOBS} @own", "patch fournosjobs/status.fournos.dev @own"],
}
MAY_NOT = {
    "fournos": [
        f"create {JOBS} @other",
        f"delete {JOBS} @other",
        f"list {JOBS} @other",
        "list secrets @own",
        "watch secrets @own",
        "list secrets @secrets",
        "create secrets @secrets",
        "delete secrets @secrets",
        "get secrets @other",
        "create pods @own",
        "create pods/exec @own",
        "patch clusterqueues.kueue.x-k8s.io @cluster",
        "patch admissionchecks/status.kueue.x-k8s.io @cluster",
        "delete resourceflavors.kueue.x-k8s.io @cluster",
        "create rolebindings.rbac.authorization.k8s.io @own",
        "impersonate serviceaccounts @own",
    ],
    "fournos-resolver": [
        "get secrets @own",
        "get secrets @secrets",
        f"list {JOBS} @own",
        f"create {JOBS} @own",
        f"delete {JOBS} @own",
        "patch fournosjobs/status.fournos.dev @own",
        "delete workloads.kueue.x-k8s.io @own",
        "create pods @own",
    ],
    "default": [f"patch {JOBS} @own", f"delete {JOBS} @own", "get secrets @own"],
}


async def test_each_account_may_do_its_work_and_nothing_else(
    server: Server, namespace: str, secrets_namespace: str, rights: None
) -> None:
    places = {"own": namespace, "secrets": secrets_namespace, "other": "kube-system", "cluster": ""}

    async def wrong() -> AsyncIterator[str]:
        for table, expected in ((MAY, True), (MAY_NOT, False)):
            for account, listed in table.items():
                for right in listed:
                    if await allowed(server, f"{namespace}:{account}", right, places) is not expected:
                        yield f"{account} {'may not' if expected else 'may'} {right}"

    await until_none(wrong)


async def until_none(wrong: Callable[[], AsyncIterator[str]]) -> None:
    """The API server's authorizer reads roles and bindings by watch."""
    found: list[str] = []

    async def none() -> bool:
        found[:] = [one async for one in wrong()]
        return not found

    await until(none, lambda: "\n".join(found), pause=0.1)


async def allowed(
    server: Server, account: str, right: str, places: Mapping[str, str], name: str = ""
) -> bool:
    """`account` is namespace:name; `name` that of the object in question."""
    where, attributes = parse(right)
    body: dict[str, Any] = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{account}",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": {**attributes, "namespace": places[where], "name": name},
        },
    }
    status, answer = await server("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    assert status == 201, answer
    return bool(answer["status"]["allowed"])


# --- Hearth --------------------------------------------------------------------------------------------

HEARTH = "hearth:hearth"
HEARTHS = {
    "own": "hearth",
    "secrets": "psap-secrets",
    "jobs": "psap-automation",
    "other": "default",
    "cluster": "",
}
CLUSTERS = "fournosclusters.fournos.dev"
HEARTH_MAY = [
    *(f"{verb} {CLUSTERS} @own" for verb in ("get", "list", "watch", "create", "patch", "delete")),
    f"list {CLUSTERS} @other",  # the published check asks in whatever namespace one is
    "patch fournosclusters/status.fournos.dev @own",
    "create configmaps @own",
    "create leases.coordination.k8s.io @own",
    "create events.events.k8s.io @own",
    *(f"{verb} secrets @secrets" for verb in ("get", "list", "watch")),
    "create events.events.k8s.io @secrets",
    *(f"{verb} {JOBS} @jobs" for verb in ("get", "list", "watch", "create", "patch", "delete")),
    *(f"{verb} workloads.kueue.x-k8s.io @jobs" for verb in ("get", "list", "watch", "patch")),
    *(
        f"{verb} resourceflavors.kueue.x-k8s.io @cluster"
        for verb in ("get", "list", "watch", "create", "patch", "delete")
    ),
    *(f"{verb} clusterqueues.kueue.x-k8s.io @cluster" for verb in ("get", "list", "watch", "patch")),
    *(
        f"{verb} workloadpriorityclasses.kueue.x-k8s.io @cluster"
        for verb in ("get", "list", "watch", "create")
    ),
]
HEARTH_MAY_NOT = [
    f"create {CLUSTERS} @other",
    f"delete {CLUSTERS} @jobs",
    *(f"{verb} secrets @secrets" for verb in ("create", "update", "patch", "delete")),
    *(f"{verb} secrets @{where}" for verb in ("get", "list") for where in ("own", "jobs", "other")),
    f"create {JOBS} @own",
    "patch fournosjobs/status.fournos.dev @jobs",
    "create workloads.kueue.x-k8s.io @jobs",
    "delete workloads.kueue.x-k8s.io @jobs",
    "patch workloads/status.kueue.x-k8s.io @jobs",
    "list workloads.kueue.x-k8s.io @other",
    "create clusterqueues.kueue.x-k8s.io @cluster",
    "delete clusterqueues.kueue.x-k8s.io @cluster",
    "delete workloadpriorityclasses.kueue.x-k8s.io @cluster",
    "list configmaps @own",
    "create pods @jobs",
    "create pods/exec @own",
    "list nodes @cluster",
    "create rolebindings.rbac.authorization.k8s.io @own",
    "impersonate serviceaccounts @own",
]
NAMED = (
    ("get configmaps @own", "clusters-removed"),
    ("patch configmaps @own", "clusters-removed"),
    ("update leases.coordination.k8s.io @own", "hearth"),
)
"""Rights to the object of this name, and to no other."""


@pytest.fixture
async def hearth(server: Server) -> AsyncIterator[None]:
    made = []
    for name in ("hearth", "psap-secrets", "psap-automation"):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await server.apply(f"/api/v1/namespaces/{name}", body)
    for obj in resources.load("deploy/clusterrole.yaml"):
        path = PLURALS[obj["kind"]].format(namespace=obj["metadata"].get("namespace"))
        made.append(f"{path}/{obj['metadata']['name']}")
        await server.apply(made[-1], obj)
    yield
    for path in made:
        await server("DELETE", path)


@pytest.mark.usefixtures("hearth")
async def test_hearth_may_do_its_work_and_nothing_else(server: Server) -> None:
    async def wrong() -> AsyncIterator[str]:
        for listed, expected in ((HEARTH_MAY, True), (HEARTH_MAY_NOT, False)):
            for right in listed:
                if await allowed(server, HEARTH, right, HEARTHS) is not expected:
                    yield f"{'may not' if expected else 'may'} {right}"
        for right, name in NAMED:
            if not await allowed(server, HEARTH, right, HEARTHS, name):
                yield f"may not {right} {name}"
            if await allowed(server, HEARTH, right, HEARTHS, "another"):
                yield f"may {right} another"

    await until_none(wrong)
