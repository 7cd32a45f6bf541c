"""The manifests' rights, checked with the API server: enough for the adapter, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from devcluster import manifests
from tests.integration.conftest import Server
from tests.integration.test_rbac import PLURALS, parse
from tests.waiting import until

FOLDER = Path(__file__).resolve().parents[3] / "deploy" / "multikueue"
MANAGER = "system:serviceaccount:fournos-system:fournos-multikueue"
WORKER = "system:serviceaccount:kueue-system:multikueue"
LOGS = "system:serviceaccount:kueue-system:multikueue-logs"
KUEUE = "system:serviceaccount:kueue-system:kueue-controller-manager"
NAMESPACES = ("fournos-system", "kueue-system", "psap-secrets")


@pytest.fixture
async def rights(server: Server) -> AsyncIterator[None]:
    made: list[str] = []
    for name in NAMESPACES:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await server.apply(f"/api/v1/namespaces/{name}", body)
    for path in sorted(FOLDER.rglob("*.yaml")):
        for obj in manifests.parse(path.read_text()):
            if obj["kind"] not in PLURALS:
                continue
            meta = obj["metadata"]
            where = f"{PLURALS[obj['kind']].format(namespace=meta.get('namespace'))}/{meta['name']}"
            await server.apply(where, obj)
            made.append(where)
    yield
    for where in made:
        await server("DELETE", where)


async def may(server: Server, user: str, right: str) -> bool:
    right, _, name = right.partition(" =")
    where, attributes = parse(right)
    attributes["name"] = name
    if where != "cluster":
        attributes["namespace"] = where
    spec: dict[str, Any] = {"user": user, "resourceAttributes": attributes}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    _, answer = await server("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


TAKEN = (
    ("fournosjobs", "fournos.dev"),
    ("miniclusters", "flux-framework.org"),
    ("appwrappers", "workload.codeflare.dev"),
)
MAY = {
    MANAGER: [
        *(f"{verb} workloads.kueue.x-k8s.io @team" for verb in ("get", "list", "watch")),
        "patch workloads/status.kueue.x-k8s.io @team",
        "patch admissionchecks/status.kueue.x-k8s.io @cluster",
        *(f"{verb} multikueueclusters.kueue.x-k8s.io @cluster" for verb in ("get", "list", "watch")),
        *(f"{verb} pipelineruns.tekton.dev @team" for verb in ("get", "list", "watch")),
        "patch pipelineruns/status.tekton.dev @team",
        *(f"patch {kind}/status.{group} @team" for kind, group in TAKEN),
        *(f"watch {kind}.{group} @team" for kind, group in TAKEN),
        *(f"{verb} secrets @kueue-system" for verb in ("get", "list", "watch")),
        "create leases.coordination.k8s.io @fournos-system",
    ],
    WORKER: [
        *(f"{verb} workloads.kueue.x-k8s.io @team" for verb in ("watch", "create", "delete", "patch")),
        *(f"{verb} pipelineruns.tekton.dev @team" for verb in ("watch", "create", "delete")),
        *(f"{verb} {kind}.{group} @team" for kind, group in TAKEN for verb in ("watch", "create", "delete")),
    ],
    LOGS: [
        *(f"{verb} fournosjobs.fournos.dev @team" for verb in ("get", "list", "watch")),
        *(f"{verb} {kind} @team" for kind in ("pods", "taskruns.tekton.dev") for verb in ("list", "watch")),
        "get pods/log @team",
    ],
    KUEUE: ["watch pipelineruns.tekton.dev @team", "patch pipelineruns/status.tekton.dev @team"],
}
MAY_NOT = {
    MANAGER: [
        "get secrets @team",
        "create secrets @kueue-system",
        "patch secrets @kueue-system",
        "get secrets @psap-secrets",
        "delete workloads.kueue.x-k8s.io @team",
        "patch workloads.kueue.x-k8s.io @team",
        "create pipelineruns.tekton.dev @team",
        "delete pipelineruns.tekton.dev @team",
        "create multikueueclusters.kueue.x-k8s.io @cluster",
        "patch multikueueclusters/status.kueue.x-k8s.io @cluster",
    ],
    WORKER: [
        "get secrets @team",
        "patch pipelineruns.tekton.dev @team",
        "create pods @team",
        "get pods/log @team",
        "patch clusterqueues.kueue.x-k8s.io @cluster",
        "create serviceaccounts/token @kueue-system",
        "create serviceaccounts/token @kueue-system =multikueue",
    ],
    LOGS: [
        "get secrets @team",
        "create pods @team",
        "delete fournosjobs.fournos.dev @team",
        "create serviceaccounts/token @kueue-system =multikueue-logs",
    ],
}


async def test_rights(server: Server, rights: None) -> None:
    for user, wanted in MAY.items():
        for right in wanted:
            # The API server's authorizer reads roles and bindings by watch.
            await until(partial(may, server, user, right), f"{user} may not {right}", pause=0.1)
    for user, refused in MAY_NOT.items():
        for right in refused:
            assert not await may(server, user, right), f"{user} may {right}"
