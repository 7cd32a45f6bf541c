"""The page as it is shipped: its own process, its ServiceAccount's rights, people with their own rights."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from devcluster import manifests
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.reviews import Reviewer
from tests.integration.conftest import PLURALS, Server
from tests.integration.jobs.operator import Operator
from tests.waiting import free_port, until

ROOT = Path(__file__).resolve().parents[3]
HOME = "fournos-web"
OWN = {"Sec-Fetch-Site": "same-origin"}
"""What a browser says of a form of the page."""
RULES = [{"apiGroups": ["fournos.dev"], "resources": ["fournosjobs"], "verbs": ["get", "list", "patch"]}]


@dataclass
class Site:
    """The running page and the API server behind it."""

    server: Server
    client: Client
    namespace: str
    url: str
    kubeconfig: Path
    """Of the shipped ServiceAccount."""
    process: Operator

    async def token(self, account: str) -> str:
        return await token_of(self.server, self.namespace, account)

    @asynccontextmanager
    async def person(self, account: str) -> AsyncIterator[aiohttp.ClientSession]:
        """A browser behind a proxy that sends the token of this ServiceAccount."""
        headers = {"Authorization": f"Bearer {await self.token(account)}"}
        connector = aiohttp.TCPConnector(ssl=False)
        async with aiohttp.ClientSession(self.url, headers=headers, connector=connector) as session:
            yield session

    async def submit(self, name: str) -> None:
        spec = {"owner": "ann", "lockOnly": True, "cluster": "alpha"}
        meta = {"name": name, "namespace": self.namespace}
        body = {"apiVersion": "fournos.dev/v1", "kind": "FournosJob", "metadata": meta, "spec": spec}
        await self.client.create(FOURNOS_JOB, body)


async def token_of(server: Server, namespace: str, account: str) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    status, answer = await server(
        "POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", body
    )
    assert status == 201, answer
    return str(answer["status"]["token"])


def with_token(kubeconfig: Path, token: str, path: Path) -> Path:
    """Writes a kubeconfig of the same cluster with this token."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
async def account(server: Server) -> AsyncIterator[str]:
    """A token of the shipped ServiceAccount, with the shipped rights and the shipped empty Secrets."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}}
    await server.apply(f"/api/v1/namespaces/{HOME}", body)
    made = []
    for file in ("rbac.yaml", "deployment.yaml"):
        for obj in manifests.parse((ROOT / "deploy" / "web" / file).read_text()):
            if obj["kind"] in PLURALS or obj["kind"] == "Secret":
                plurals = {**PLURALS, "Secret": "/api/v1/namespaces/{namespace}/secrets"}
                made.append(f"{plurals[obj['kind']].format(namespace=HOME)}/{obj['metadata']['name']}")
                await server.apply(made[-1], obj)
    yield await token_of(server, HOME, HOME)
    for path in made:
        await server("DELETE", path)


@pytest.fixture
async def site(
    server: Server,
    client: Client,
    crds: None,
    namespace: str,
    account: str,
    kubeconfig: Path,
    tmp_path: Path,
) -> AsyncIterator[Site]:
    """`fournos run --enable web` as the ServiceAccount; ann may work with jobs of the namespace, bob not."""
    core, rbac = f"/api/v1/namespaces/{namespace}", "apis/rbac.authorization.k8s.io/v1"
    for name in ("ann", "bob"):
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        await server.apply(f"{core}/serviceaccounts/{name}", body)
    group = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "ann"}}
    await server.apply(f"/{rbac}/namespaces/{namespace}/roles/ann", {**group, "kind": "Role", "rules": RULES})
    binding: dict[str, Any] = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "ann"},
        "subjects": [{"kind": "ServiceAccount", "name": "ann", "namespace": namespace}],
    }
    await server.apply(
        f"/{rbac}/namespaces/{namespace}/rolebindings/ann", {**group, "kind": "RoleBinding", **binding}
    )
    own = with_token(kubeconfig, account, tmp_path / "kubeconfig-web")
    url, operator = await replica(own, namespace, tmp_path / "web.log")
    yield Site(server, client, namespace, url, own, operator)
    operator.stop()


async def replica(kubeconfig: Path, namespace: str, log: Path) -> tuple[str, Operator]:
    """Starts one process of the page.  Returns its address and the process when it answers."""
    port = free_port()
    settings = {"WEB_PORT": str(port), "WEB_JOBS_NAMESPACE": ""}
    operator = Operator(kubeconfig, namespace, log, enable="web", settings=settings)
    await operator.ready()
    url = f"https://127.0.0.1:{port}"

    async def answers() -> bool:
        try:
            async with (
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
                session.get(url) as answer,
            ):
                return answer.status == 401
        except aiohttp.ClientError:
            return False

    await until(answers, "the page does not answer", report=operator.tail)
    return url, operator


async def page(session: aiohttp.ClientSession, path: str) -> tuple[int, str]:
    async with session.get(path) as answer:
        return answer.status, await answer.text()


async def shown(session: aiohttp.ClientSession, url: str, job: str) -> None:
    """Waits until the replica at this address has the job in its list."""

    async def there() -> bool:
        return job in (await page(session, f"{url}/jobs"))[1]

    await until(there, f"{job} is not on the page of {url}")


async def test_each_person_sees_and_does_what_the_rights_of_the_cluster_allow(site: Site) -> None:
    await site.submit("visible")
    address = f"/jobs/{site.namespace}/visible"
    async with site.person("ann") as ann, site.person("bob") as bob:
        await shown(ann, site.url, "visible")
        status, job = await page(ann, address)
        assert status == 200 and f"{address}/stop" in job and f"{address}/delete" not in job

        for path in ("/", "/jobs", "/queue", "/kinds", "/usage", address):
            assert "visible" not in (await page(bob, path))[1].replace(address, ""), path
        assert (await page(bob, address))[0] == 403

        form = dict(re.findall(r'name="(uid)" value="([^"]+)"', job))
        async with bob.post(f"{address}/stop", data=form, headers=OWN) as answer:
            assert answer.status == 403
        async with ann.post(f"{address}/stop", data=form) as answer:
            assert answer.status == 403  # no browser says that the form is one of the page
        async with ann.post(f"{address}/stop", data=form, headers=OWN, allow_redirects=False) as answer:
            assert answer.status == 303, await answer.text()
    found = await site.client.get(FOURNOS_JOB, Key(site.namespace, "visible"))
    assert found["spec"]["shutdown"]


async def test_replicas_serve_a_tab_in_turn(site: Site, tmp_path: Path) -> None:
    """A balancer sends each request to another replica."""
    await site.submit("first")
    other_url, other = await replica(site.kubeconfig, site.namespace, tmp_path / "other.log")
    try:
        async with site.person("ann") as ann:
            for url in (site.url, other_url):
                await shown(ann, url, "first")
            async with ann.get(f"{site.url}/jobs") as answer:
                again = {"If-None-Match": answer.headers["ETag"]}
            async with ann.get(f"{other_url}/jobs", headers=again) as answer:
                assert answer.status == 304, "the replicas name the same page differently"
            await asyncio.to_thread(site.process.stop)
            assert await site.process.ended() == 0, site.process.tail()
            await site.submit("second")
            await shown(ann, other_url, "second")
            async with ann.get(f"{other_url}/jobs", headers=again) as answer:
                assert answer.status == 200 and "second" in await answer.text()
    finally:
        other.stop()


async def test_the_rules_of_a_namespace_answer_as_reviews_do(site: Site) -> None:
    """On a real API server: ann has a role in one namespace, and nothing in another."""
    async with Client(load(site.kubeconfig)) as api:
        token = await site.token("ann")
        own, reviewer = api.bearing(token), Reviewer(api, monotonic=time.monotonic)
        user = await reviewer.user(token)
        assert user
        answers = set()
        for namespace in (site.namespace, "default"):
            for verb in ("get", "list", "patch", "delete"):
                for resource, subresource in (
                    ("fournosjobs", ""),
                    ("fournosjobs", "status"),
                    ("workloads", ""),
                ):
                    asked = {"verb": verb, "group": "fournos.dev", "resource": resource}
                    asked |= {"namespace": namespace, **({"subresource": subresource} if subresource else {})}
                    reviewed = await reviewer.may(user, asked)
                    assert await reviewer.may(user, asked, own=own) == reviewed, asked
                    answers.add(reviewed)
        assert answers == {True, False}
        assert (await reviewer._rules_of(user, site.namespace, own)).complete


async def test_without_a_person_nothing_is_shown(site: Site) -> None:
    async with aiohttp.ClientSession(site.url, connector=aiohttp.TCPConnector(ssl=False)) as session:
        for headers in ({}, {"Authorization": "Bearer forged"}, {"X-Forwarded-User": "ann"}):
            async with session.get("/jobs", headers=headers) as answer:
                assert answer.status == 401
