"""The manifests' rights, checked with the API server: enough for the adapter, and nothing else."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import manifests
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import ForbiddenError, KubeError
from fournos.engine.kube.resource import POD, SECRET, Key
from fournos.engine.kube.untrusted_kubeconfig import check
from fournos.engine.runtime.clock import SystemClock
from fournos.systems.multikueue.kubeconfig import content_of, token_in
from fournos.systems.multikueue.names import KUBECONFIG, LOGS_OF, RENEW
from fournos.systems.multikueue.renew import Renew, dial_over_http, executors
from tests.integration.conftest import Server
from tests.integration.test_rbac import PLURALS, parse
from tests.waiting import until

FOLDER = Path(__file__).resolve().parents[3] / "deploy" / "multikueue"
MANAGER = "system:serviceaccount:fournos-system:fournos-multikueue"
WORKER = "system:serviceaccount:kueue-system:multikueue"
LOGS = "system:serviceaccount:kueue-system:multikueue-logs"
KUEUE = "system:serviceaccount:kueue-system:kueue-controller-manager"
NAMESPACES = ("fournos-system", "kueue-system", "hearth", "psap-secrets")


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
        *(
            f"{verb} multikueueclusters.kueue.x-k8s.io @cluster"
            for verb in ("watch", "create", "patch", "delete")
        ),
        *(f"{verb} pipelineruns.tekton.dev @team" for verb in ("get", "list", "watch")),
        "patch pipelineruns/status.tekton.dev @team",
        *(f"patch {kind}/status.{group} @team" for kind, group in TAKEN),
        *(f"watch {kind}.{group} @team" for kind, group in TAKEN),
        *(f"{verb} secrets @kueue-system" for verb in ("get", "list", "watch", "create", "patch")),
        "watch secrets @psap-secrets",
        "watch fournosclusters.fournos.dev @hearth",
        "create leases.coordination.k8s.io @fournos-system",
    ],
    WORKER: [
        *(f"{verb} workloads.kueue.x-k8s.io @team" for verb in ("watch", "create", "delete", "patch")),
        *(f"{verb} pipelineruns.tekton.dev @team" for verb in ("watch", "create", "delete")),
        *(f"{verb} {kind}.{group} @team" for kind, group in TAKEN for verb in ("watch", "create", "delete")),
        *(
            f"create serviceaccounts/token @kueue-system ={name}"
            for name in ("multikueue", "multikueue-logs")
        ),
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
        "delete secrets @kueue-system",
        "create secrets @psap-secrets",
        "delete workloads.kueue.x-k8s.io @team",
        "patch workloads.kueue.x-k8s.io @team",
        "create pipelineruns.tekton.dev @team",
        "delete pipelineruns.tekton.dev @team",
        "patch multikueueclusters/status.kueue.x-k8s.io @cluster",
    ],
    WORKER: [
        "get secrets @team",
        "patch pipelineruns.tekton.dev @team",
        "create pods @team",
        "get pods/log @team",
        "patch clusterqueues.kueue.x-k8s.io @cluster",
        "create serviceaccounts/token @kueue-system",
        "create serviceaccounts/token @kueue-system =kueue-controller-manager",
        "create serviceaccounts/token @team =multikueue",
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


def cluster_of(kubeconfig: Path) -> dict[str, str]:
    """The address and the authority of an API server."""
    (found,) = yaml.safe_load(kubeconfig.read_text())["clusters"]
    cluster = found["cluster"]
    ca = cluster.get("certificate-authority-data")
    if not ca:
        ca = base64.b64encode(Path(cluster["certificate-authority"]).read_bytes()).decode()
    return {"server": cluster["server"], "certificate-authority-data": ca}


async def test_the_shipped_identity_renews_its_tokens_and_no_other_s(
    server: Server, rights: None, client: Client, kubeconfig: Path
) -> None:
    """One API server is manager and worker."""
    cluster, before = cluster_of(kubeconfig), {}
    for name, account, labels in (
        ("w1", "multikueue", {RENEW: "true"}),
        ("w1-logs", "multikueue-logs", {RENEW: "true", LOGS_OF: "w1"}),
    ):
        path = "/api/v1/namespaces/kueue-system"
        _, answer = await server(
            "POST", f"{path}/serviceaccounts/{account}/token", {"spec": {"expirationSeconds": 1200}}
        )
        content = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": answer["status"]["token"]}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": "kueue-system", "labels": labels},
            "stringData": {KUBECONFIG: yaml.safe_dump(content)},
        }
        await server.apply(f"{path}/secrets/{name}", secret)
        before[name] = answer["status"]["token"]
    renew = executors(SystemClock(), dial_over_http)[Renew]

    async def renewed(name: str, authority: str) -> bytes:
        key = Key("kueue-system", name)
        version = (await client.get(SECRET, key))["metadata"]["resourceVersion"]
        await renew(Renew(key, Key("kueue-system", authority), version), client)
        return content_of(await client.get(SECRET, key))

    try:
        for name in before:
            new = await renewed(name, "w1")
            assert before[name].encode() not in new
            assert token_in(new).life == timedelta(seconds=1200)
        async with Client(check(new, now=datetime.now(UTC)).credentials) as logs:
            await logs.list(POD, namespace="kueue-system")
            with pytest.raises(ForbiddenError):
                await logs.list(SECRET, namespace="kueue-system")
        with pytest.raises(KubeError, match="does not allow create on serviceaccounts/token"):
            await renewed("w1-logs", "w1-logs")
    finally:
        for name in before:
            await client.delete(SECRET, Key("kueue-system", name))
