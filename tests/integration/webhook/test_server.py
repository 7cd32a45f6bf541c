"""Webhooks that a real API server calls: patches, refusals, facts; rotation, crashes, slow answers."""

from __future__ import annotations

import asyncio
import base64
import uuid
from datetime import timedelta
from typing import Any, Literal

import pytest

from fournos.engine.api.rules import Violation
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import (
    CONFIG_MAP,
    MUTATING_WEBHOOKS,
    SECRET,
    VALIDATING_WEBHOOKS,
    Key,
    Obj,
    Resource,
)
from fournos.engine.runtime.certificates import Terms
from fournos.engine.runtime.decision import Facts, LiveGet, Present, Unknown, UserAccess
from fournos.engine.runtime.webhook.registration import configurations
from fournos.engine.runtime.webhook.review import Request, Review, Webhook
from tests.integration.conftest import Server
from tests.integration.webhook.conftest import Replicas, handshake
from tests.waiting import LIMIT, until

QUICK = Terms(
    authority=timedelta(seconds=70),
    authority_renewal=timedelta(seconds=60),
    certificate=timedelta(seconds=30),
    certificate_renewal=timedelta(seconds=28),
    settling=timedelta(seconds=5),
)
"""A new certificate every two seconds or so, and a new authority every ten."""


def webhook(namespace: str, review: Any, **changes: Any) -> Webhook:
    """Of the ConfigMaps of one namespace."""
    fields: dict[str, Any] = {
        "kind": "validating",
        "name": "maps.fournos.dev",
        "configuration": f"fournos-{namespace}",
        "path": "/maps",
        "resources": (CONFIG_MAP,),
        "operations": ("CREATE", "UPDATE"),
        "review": review,
        "namespaces": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }
    return Webhook(**{**fields, **changes})


def admit(request: Request, facts: Facts) -> Review:
    return Review()


def refuse_bad(request: Request, facts: Facts) -> Review:
    if (request.new.get("data") or {}).get("bad"):
        return Review((Violation("data.bad", "take it out", "bad"),))
    return Review(warnings=("mind the gap",))


def stamp(request: Request, facts: Facts) -> Review:
    return Review(patch={"metadata": {"labels": {"by": request.user.name}}, "data": {"drop": None}})


async def make(server: Server, namespace: str, name: str, **data: str) -> tuple[int, dict[str, Any]]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    return await server("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)


async def settled(server: Server, namespace: str, expected: int) -> dict[str, Any]:
    """The API server reads webhook configurations by watch: a moment may pass."""
    last: tuple[int, dict[str, Any]] = (0, {})

    async def look() -> dict[str, Any] | None:
        nonlocal last
        last = await make(server, namespace, f"probe-{uuid.uuid4().hex[:8]}", bad="yes")
        return last[1] if last[0] == expected else None

    return dict(await until(look, lambda: f"{last[0]}: {last[1].get('message')}", pause=0.1))


async def test_what_a_webhook_sets_and_refuses(server: Server, namespace: str, replicas: Replicas) -> None:
    hooks = [
        webhook(namespace, refuse_bad),
        webhook(namespace, stamp, kind="mutating", name="stamp.fournos.dev", path="/stamp"),
    ]
    await replicas.start(hooks)
    refused = await settled(server, namespace, 422)
    words = 'admission webhook "maps.fournos.dev" denied the request: data.bad: take it out'
    assert refused["message"] == words and refused["reason"] == "Invalid"
    assert refused["details"]["causes"][0]["field"] == "data.bad"
    status, made = await make(server, namespace, "good", drop="x", keep="y")
    assert status == 201, made
    assert made["data"] == {"keep": "y"} and made["metadata"]["labels"]["by"]
    assert replicas.metrics.value("fournos_webhook_reviews_total", "stamp.fournos.dev", "changed") > 0


async def test_the_configuration_is_stored_as_it_was_written(
    client: Client, namespace: str, replicas: Replicas
) -> None:
    """Else every look at it would find a difference, and write."""
    hooks = [
        webhook(namespace, admit, conditions=(("none", "false"),), timeout=7, failure_policy="Ignore"),
        webhook(namespace, stamp, kind="mutating", name="stamp.fournos.dev", path="/stamp", timeout=7),
    ]
    registrar = await replicas.start(hooks)
    key = Key("", f"fournos-{namespace}")
    found = await client.get(VALIDATING_WEBHOOKS, key)
    bundle = base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"])
    wanted = configurations(hooks, registrar._target, owner=namespace, bundle=bundle)
    assert found["webhooks"] == wanted[VALIDATING_WEBHOOKS, key.name]["webhooks"]
    # What spoils the other one causes a look at both.
    (spoiled,) = (await client.get(MUTATING_WEBHOOKS, key))["webhooks"]
    await client.patch(MUTATING_WEBHOOKS, key, {"webhooks": [{**spoiled, "timeoutSeconds": 3}]})

    async def mended() -> bool:
        (one,) = (await client.get(MUTATING_WEBHOOKS, key))["webhooks"]
        return bool(one["timeoutSeconds"] == 7)

    await until(mended, "the other configuration is not corrected")
    after = await client.get(VALIDATING_WEBHOOKS, key)
    assert after["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]


async def test_two_replicas_renew_their_authority_under_load_and_no_request_is_refused(
    server: Server, client: Client, namespace: str, replicas: Replicas
) -> None:
    hooks = [webhook(namespace, admit), webhook(namespace, stamp, kind="mutating", name="s.fournos.dev",
                                                path="/s")]  # fmt: skip
    for leads in (True, False):
        await replicas.start(hooks, leads=leads, terms=QUICK)
    bundles: set[bytes] = set()
    failures: list[str] = []
    done, turned = asyncio.Event(), asyncio.Event()
    written = 0

    async def write(worker: int) -> None:
        nonlocal written
        while not done.is_set():
            status, answer = await make(server, namespace, f"load-{worker}-{written}")
            written += 1
            if status != 201:
                failures.append(answer["message"])

    async def connect() -> None:
        """What an API server does that has the configurations a second old."""
        while not done.is_set():
            found = await client.get(VALIDATING_WEBHOOKS, Key("", f"fournos-{namespace}"))
            bundle = base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"])
            await asyncio.sleep(0.3)
            try:
                await handshake(replicas.balancer, bundle)
            except OSError as error:
                failures.append(str(error))
            bundles.add(bundle)
            if len(bundles) >= 4:
                turned.set()

    work = [asyncio.create_task(job) for job in (write(0), write(1), connect())]
    async with asyncio.timeout(LIMIT):
        await turned.wait()
    done.set()
    await asyncio.gather(*work)
    assert not failures, failures[:3]
    assert written > 20


async def test_a_lost_secret_turns_the_authority_for_all(
    server: Server, client: Client, namespace: str, replicas: Replicas
) -> None:
    hooks = [webhook(namespace, refuse_bad)]
    old = await replicas.start(hooks)
    await settled(server, namespace, 422)
    await client.delete(SECRET, replicas.secret)
    new = await replicas.start(hooks, leads=False)
    await until(lambda: old._certificate.shown == new._certificate.shown, "they do not agree")
    replicas.balancer.cut()
    assert "take it out" in (await settled(server, namespace, 422))["message"]


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
async def test_without_a_server(
    server: Server, namespace: str, replicas: Replicas, policy: Literal["Fail", "Ignore"], status: int
) -> None:
    await replicas.start([webhook(namespace, refuse_bad, failure_policy=policy)])
    await settled(server, namespace, 422)
    await replicas.stop()
    answer = await settled(server, namespace, status)
    if status == 500:
        assert 'failed calling webhook "maps.fournos.dev"' in answer["message"]


async def test_a_slow_answer_is_a_temporary_refusal_with_a_reason(
    server: Server, client: Client, namespace: str, replicas: Replicas
) -> None:
    class Slow(Client):
        async def get(self, resource: Resource, key: Key) -> Obj:
            await asyncio.sleep(300)
            raise AssertionError("cut before")

    def curious(request: Request, facts: Facts) -> Review:
        assert isinstance(facts.require(LiveGet(CONFIG_MAP, Key(namespace, "other"))), Unknown)
        return Review((Violation("data", "try again", "unknown"),), transient=True)

    slow = Slow(client._transport._credentials)
    await replicas.start([webhook(namespace, curious, timeout=4)], answering_api=slow)
    # Later than its timeout the API server would answer 500, that the call failed.
    answer = await settled(server, namespace, 503)
    assert answer["message"].endswith("denied the request: data: try again")
    await slow.close()


async def test_rights_are_those_of_the_user_who_asks(
    server: Server, namespace: str, replicas: Replicas
) -> None:
    """An impersonated user who may make ConfigMaps and not Secrets."""

    def entitled(request: Request, facts: Facts) -> Review:
        if facts.require(UserAccess(request.user, "create", SECRET, request.key.namespace)) == Present(True):
            return Review()
        return Review((Violation("data", f"{request.user.name} may not create secrets", "rights"),))

    await replicas.start([webhook(namespace, entitled)])
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}
    await server.apply(f"{rbac}/roles/maps", _object("Role", "maps") | {"rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maps"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "testers"}
    binding = _object("RoleBinding", "maps") | {"roleRef": reference, "subjects": [subject]}
    await server.apply(f"{rbac}/rolebindings/maps", binding)
    headers = {"Impersonate-User": "alice", "Impersonate-Group": "testers"}

    async def refused() -> bool:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        status, answer = await server("POST", path, body, headers=headers)
        return status == 422 and answer["message"].endswith("data: alice may not create secrets")

    await until(refused, "she is not refused for her rights", pause=0.1)
    status, answer = await make(server, namespace, "mine")
    assert status == 201, answer


def _object(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
