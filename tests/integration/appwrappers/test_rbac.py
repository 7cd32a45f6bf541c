"""deploy/appwrapper's rights, checked with the API server: what the operator may do, and what it must not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from fournos.systems.appwrappers.kinds import WRAPPED
from tests.integration.conftest import Server
from tests.integration.test_kustomize import rendered
from tests.integration.test_rbac import PLURALS, parse
from tests.waiting import until

NAMESPACE = "appwrapper-system"
OPERATOR = f"{NAMESPACE}:appwrapper-controller-manager"
KUEUE = "kueue-system:kueue-controller-manager"
PLACES = {"own": NAMESPACE, "other": "kube-system", "cluster": ""}
APPWRAPPERS = "appwrappers.workload.codeflare.dev"
HOOKS = "validatingwebhookconfigurations.admissionregistration.k8s.io"
MAY = [
    *(f"{verb} {APPWRAPPERS} @other" for verb in ("get", "list", "watch", "patch")),
    "patch appwrappers/status.workload.codeflare.dev @other",
    "update appwrappers/finalizers.workload.codeflare.dev @other",
    *(
        f"{verb} {kind.resource.plural}.{kind.resource.group} @other"
        for kind in WRAPPED
        for verb in ("get", "list", "watch", "create", "delete")
    ),
    "create services @other",
    "watch nodes @cluster",
    "create events.events.k8s.io @other",
    "create subjectaccessreviews.authorization.k8s.io @cluster",
    "create leases.coordination.k8s.io @own",
    f"watch {HOOKS} @cluster",
]
MAY_NOT = [
    f"create {APPWRAPPERS} @other",
    f"delete {APPWRAPPERS} @other",
    "patch pods @other",
    "create pods/exec @other",
    *(f"{verb} secrets @own" for verb in ("get", "list", "watch", "create", "patch", "delete")),
    "get secrets @other",
    "create serviceaccounts/token @own",
    "create rolebindings.rbac.authorization.k8s.io @other",
    f"create {HOOKS} @cluster",
    f"patch {HOOKS} @cluster",
    "patch nodes @cluster",
    "impersonate users @cluster",
]
OWN_WORKLOADS = [
    *(f"{verb} workloads.kueue.x-k8s.io @other" for verb in ("get", "list", "watch", "create", "patch")),
    "patch workloads/status.kueue.x-k8s.io @other",
    "watch resourceflavors.kueue.x-k8s.io @cluster",
    "get localqueues.kueue.x-k8s.io @other",
    "get clusterqueues.kueue.x-k8s.io @cluster",
    "get admissionchecks.kueue.x-k8s.io @cluster",
]

KUEUE_LOOKS = [
    f"{verb} {kind} @other"
    for verb in ("get", "list", "watch")
    for kind in (
        "fournosjobs.fournos.dev",
        "miniclusters.flux-framework.org",
        "pipelineruns.tekton.dev",
        "taskruns.tekton.dev",
    )
]
"""At the owners of Jobs and pods, where its configuration lists these kinds."""


class Rights:
    def __init__(self, server: Server, account: str = OPERATOR) -> None:
        self._server = server
        self._account = account

    async def __call__(self, right: str, **more: str) -> bool:
        where, attributes = parse(right)
        body: dict[str, Any] = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{self._account}",
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "resourceAttributes": {**attributes, **more, "namespace": PLACES[where]},
            },
        }
        status, answer = await self._server(
            "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body
        )
        assert status == 201, answer
        return bool(answer["status"]["allowed"])


async def apply(server: Server, folder: str) -> list[str]:
    """The roles and bindings of a folder; their paths."""
    paths = []
    for item in rendered(folder):
        meta = item["metadata"]
        if item["kind"] in PLURALS:
            where = PLURALS[item["kind"]].format(namespace=meta.get("namespace"))
            paths.append(f"{where}/{meta['name']}")
            await server.apply(paths[-1], item)
    return paths


@pytest.fixture
async def rights(server: Server) -> AsyncIterator[Rights]:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await server.apply(f"/api/v1/namespaces/{NAMESPACE}", namespace)
    paths = await apply(server, "deploy/appwrapper")
    yield Rights(server)
    for path in paths:
        await server("DELETE", path)


async def granted(rights: Rights, wanted: Sequence[str]) -> None:
    """Roles are aggregated by a controller, and the API server's authorizer reads them by watch."""
    missing = list(wanted)

    async def none() -> bool:
        missing[:] = [right for right in missing if not await rights(right)]
        return not missing

    await until(none, lambda: f"may not {', '.join(missing)}", pause=0.1)


async def test_the_operator_may_do_its_work_and_nothing_else(rights: Rights) -> None:
    await granted(rights, MAY)
    wrong = [f"may {right}" for right in (*MAY_NOT, *OWN_WORKLOADS) if await rights(right)]
    assert not wrong, "\n".join(wrong)
    assert await rights("patch secrets @own", name="appwrapper-webhook-service-cert")
    assert await rights(f"patch {HOOKS} @cluster", name="appwrapper-validating-webhook-configuration")
    assert await rights("patch leases.coordination.k8s.io @own", name="appwrappers")


async def test_with_workloads_of_its_own_it_may_write_those_too(server: Server, rights: Rights) -> None:
    paths = await apply(server, "deploy/appwrapper-own-workloads")
    try:
        await granted(rights, [*MAY, *OWN_WORKLOADS])
        kueue = Rights(server, KUEUE)
        await granted(kueue, KUEUE_LOOKS)
        for verb in ("create", "patch", "delete"):
            assert not await kueue(f"{verb} fournosjobs.fournos.dev @other")
    finally:
        for path in paths:
            await server("DELETE", path)
