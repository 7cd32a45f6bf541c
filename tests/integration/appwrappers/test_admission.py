"""AppWrapper admission called by a real API server, with the rights of real users."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from fournos.systems.appwrappers.part import appwrapper_webhooks
from fournos.systems.appwrappers.settings import AppWrapperSettings
from tests.integration.appwrappers.test_rules import SAMPLE, path
from tests.integration.conftest import Server
from tests.integration.webhook.conftest import Replicas, replicas
from tests.waiting import until

__all__ = ["replicas"]

ALICE = {"Impersonate-User": "alice@example.com", "Impersonate-Uid": "7", "Impersonate-Group": "dev"}
QUEUE = "kueue.x-k8s.io/queue-name"
POD = SAMPLE["spec"]["components"][0]["template"]
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "s"},
    "spec": {"ports": [{"port": 80}]},
}
TEMPLATE = {"metadata": {}, "spec": POD["spec"]}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {"parallelism": 2, "template": TEMPLATE},
}
GROUPS = {
    "apiVersion": "leaderworkerset.x-k8s.io/v1",
    "kind": "LeaderWorkerSet",
    "metadata": {"name": "l"},
    "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": TEMPLATE}},
}
RIGHTS = [
    {"apiGroups": ["workload.codeflare.dev"], "resources": ["appwrappers"], "verbs": ["create", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]},
    {"apiGroups": ["leaderworkerset.x-k8s.io"], "resources": ["leaderworkersets"], "verbs": ["create"]},
]


class User:
    """Creates and changes AppWrappers as alice, who may create Pods, Jobs and LeaderWorkerSets."""

    def __init__(self, server: Server, namespace: str) -> None:
        self.server = server
        self.namespace = namespace
        self._made = 0

    async def create(
        self,
        *templates: Any,
        labels: Any = None,
        annotations: Any = None,
        headers: Any = ALICE,
        name: str = "",
        **spec: Any,
    ) -> tuple[int, dict[str, Any]]:
        self._made += 1
        components = [one if "template" in one else {"template": one} for one in templates]
        body = {
            "apiVersion": "workload.codeflare.dev/v1beta2",
            "kind": "AppWrapper",
            "metadata": {
                "name": name or f"w-{self._made}",
                "labels": labels or {},
                "annotations": annotations or {},
            },
            "spec": {"components": components, **spec},
        }
        return await self.server("POST", path(self.namespace), body, headers=headers)

    async def change(self, name: str, body: Any) -> tuple[int, dict[str, Any]]:
        kind = "application/merge-patch+json"
        where = path(self.namespace, name)
        return await self.server("PATCH", where, body, content_type=kind, headers=ALICE)


async def user_of(server: Server, namespace: str) -> User:
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    meta = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "alice"}}
    await server.apply(f"{rbac}/roles/alice", {**meta, "kind": "Role", "rules": RIGHTS})
    group = "rbac.authorization.k8s.io"
    subject = {"apiGroup": group, "kind": "Group", "name": "dev"}
    reference = {"apiGroup": group, "kind": "Role", "name": "alice"}
    binding = {**meta, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]}
    await server.apply(f"{rbac}/rolebindings/alice", binding)
    return User(server, namespace)


async def serve(replicas: Replicas, user: User, **settings: Any) -> None:
    """Serves the webhooks for the user's namespace only; returns when the API server calls them."""
    own = {"matchLabels": {"kubernetes.io/metadata.name": user.namespace}}
    hooks = [
        replace(hook, namespaces=own, configuration=f"appwrapper-{user.namespace}")
        for hook in appwrapper_webhooks(AppWrapperSettings(**settings))
    ]
    await replicas.start(hooks)

    async def mutates() -> bool:
        status, made = await user.create(POD, headers=None)
        labels = made.get("metadata", {}).get("labels") or {}
        return status == 201 and "workload.codeflare.dev/user" in labels

    async def validates() -> bool:
        return (await user.create(SERVICE, headers=None))[0] == 422

    # The two configurations are two objects: the other one may be a moment later.
    await until(mutates, "the mutating webhook is not called", pause=0.1)
    await until(validates, "the validating webhook is not called", pause=0.1)


@pytest.fixture
async def user(server: Server, crds: None, namespace: str, replicas: Replicas) -> AsyncIterator[User]:
    found = await user_of(server, namespace)
    await serve(replicas, found)
    yield found


async def test_an_unentitled_user_is_refused(user: User) -> None:

    async def entitled() -> bool:
        return (await user.create(POD, JOB))[0] == 201

    await until(entitled, "rights, too, are read by watch", pause=0.1)
    status, answer = await user.create(POD, SERVICE)
    assert status == 422
    words = f"User alice@example.com is not authorized to create services in {user.namespace}"
    assert words in answer["message"]
    status, _ = await user.create(POD, SERVICE, headers=None)
    assert status == 201


async def test_what_is_set(user: User) -> None:
    forged = {"workload.codeflare.dev/user": "root", "mine": "kept"}
    status, made = await user.create(POD, GROUPS, labels=forged)
    assert status == 201, made
    assert made["metadata"]["labels"] == {
        "workload.codeflare.dev/user": "alice_example.com",
        "workload.codeflare.dev/userid": "7",
        "mine": "kept",
    }
    sets = [component.get("podSets") for component in made["spec"]["components"]]
    assert sets == [
        None, [{"path": "template.spec.leaderWorkerTemplate.workerTemplate", "replicas": 6}]
    ]  # fmt: skip
    assert made["spec"].get("suspend", False) is False


NESTED = {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "metadata": {"name": "i"}}
REFUSED = {
    "by CEL": ([NESTED, POD], {}, "Nested AppWrappers are forbidden"),
    "no pods": ([SERVICE], {}, "components contain no podspecs"),
    "no kind of its sort": ([{**JOB, "spec": "x"}], {}, "the template is not a Job"),
    "annotation": (
        [POD],
        {"annotations": {"workload.codeflare.dev.appwrapper/terminalExitCodes": "9" * 5000}},
        "'9999999999999999999999999999999999999999'… (5000 characters) cannot be used: write exit codes",
    ),
}


async def test_every_invariant_is_refused_in_its_words(user: User) -> None:
    for name, (templates, changes, words) in REFUSED.items():
        status, answer = await user.create(*templates, headers=None, **changes)
        assert status == 422, (name, answer)
        assert words in answer["message"], name


async def test_what_is_fixed_stays_as_it_was_admitted(user: User) -> None:
    status, made = await user.create(POD, JOB, name="fixed", headers=None)
    assert status == 201, made
    components = made["spec"]["components"]
    other = {**POD, "spec": {**POD["spec"], "priorityClassName": "x"}}
    declared = {**components[1], "podSets": [{"path": "template.spec.template", "replicas": 2}]}
    for body in (
        {"spec": {"components": [{"template": other}, components[1]]}},
        {"spec": {"components": components[:1]}},
        {"spec": {"components": [components[0], declared]}},
        {"spec": {"managedBy": "somebody"}},
        {"metadata": {"labels": {"workload.codeflare.dev/user": "bob"}}},
        {"metadata": {"labels": {"workload.codeflare.dev/userid": None}}},
    ):
        status, answer = await user.change("fixed", body)
        assert status == 422, (body, answer)
        assert "attempt to change immutable field" in answer["message"]
    info = {**components[0], "podSetInfos": [{"labels": {"a": "b"}}], "annotations": {"c": "d"}}
    for body in (
        {"spec": {"suspend": True}},
        {"spec": {"suspend": False, "components": [info, components[1]]}},
        {"metadata": {"labels": {"any": "other"}, "annotations": {"a": "b"}}},
    ):
        status, answer = await user.change("fixed", body)
        assert status == 200, (body, answer)


async def test_a_queue_suspends_where_the_workloads_are_ours(
    server: Server, crds: None, namespace: str, replicas: Replicas
) -> None:
    user = await user_of(server, namespace)
    await serve(replicas, user, workloads="own")
    status, made = await user.create(POD, headers=None, labels={QUEUE: "standard"}, suspend=False)
    assert status == 201, made
    assert made["metadata"]["labels"][QUEUE] == "standard" and made["spec"]["suspend"] is True
