"""The page as it is shipped: its own process, its ServiceAccount's rights, people with their own rights."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from yarl import URL

from devcluster import manifests
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.listening import room
from fournos.engine.runtime.reviewer import Reviewer
from tests.integration.conftest import Server
from tests.integration.jobs.operator import Operator
from tests.integration.test_rbac import PLURALS
from tests.waiting import free_port, until

ROOT = Path(__file__).resolve().parents[3]
HOME = "fournos-web"
STREAMS = 20
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
        """A browser in which this ServiceAccount has logged in by its token."""
        # The addresses of cookies of 127.0.0.1 are no names, which the jar leaves out otherwise.
        jar = aiohttp.CookieJar(unsafe=True)
        connector = aiohttp.TCPConnector(ssl=False)
        async with aiohttp.ClientSession(self.url, cookie_jar=jar, connector=connector) as session:
            form = {"token": await self.token(account), "next": "/jobs"}
            async with session.post("/login", data=form, allow_redirects=False) as answer:
                assert (answer.status, answer.headers.get("Location")) == (303, "/jobs"), await answer.text()
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
    settings = {"WEB_PORT": str(port), "WEB_JOBS_NAMESPACE": "", "WEB_STREAMS": str(STREAMS)}
    operator = Operator(kubeconfig, namespace, log, enable="web", settings=settings)
    await operator.ready()
    url = f"https://127.0.0.1:{port}"

    async def answers() -> bool:
        try:
            async with (
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
                session.get(f"{url}/login") as answer,
            ):
                return answer.status == 200
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


def stream_of(html: str, *, root: str = "") -> URL:
    """The address of the stream of a page."""
    stream = re.search(r'data-live="([^"]+)"', html)
    assert stream
    return URL(root + stream[1].replace("&amp;", "&"), encoded=True)


async def event(answer: aiohttp.ClientResponse, text: bytes) -> tuple[str, bytes]:
    """Returns the id of the event that has this text, and all that came until then."""
    found, came = b"", b""
    async for line in answer.content:
        came += line
        if line.startswith(b"id: "):
            found = line.removeprefix(b"id: ").strip()
        if text in line:
            return found.decode(), came
    pytest.fail(f"the stream ended before {text!r}")


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

        csrf = re.search(r'name="csrf" value="([^"]+)"', job)
        assert csrf
        form = dict(re.findall(r'name="(uid)" value="([^"]+)"', job))
        async with bob.post(f"{address}/stop", data={**form, "csrf": csrf[1]}) as answer:
            assert answer.status == 403  # the form of another session
        async with ann.post(
            f"{address}/stop", data={**form, "csrf": csrf[1]}, allow_redirects=False
        ) as answer:
            assert answer.status == 303, await answer.text()
    found = await site.client.get(FOURNOS_JOB, Key(site.namespace, "visible"))
    assert found["spec"]["shutdown"]


async def test_a_change_comes_to_an_open_tab(site: Site) -> None:
    await site.submit("first")
    async with site.person("ann") as ann:
        await shown(ann, site.url, "first")
        _, html = await page(ann, "/jobs")
        async with ann.get(stream_of(html)) as answer:
            assert answer.status == 200
            await site.submit("second")
            await event(answer, b"second")


async def test_replicas_serve_one_session_in_turn(site: Site, tmp_path: Path) -> None:
    """A balancer sends each request to another replica; a stream goes on where an ended replica left it."""
    await site.submit("first")
    other_url, other = await replica(site.kubeconfig, site.namespace, tmp_path / "other.log")
    try:
        async with site.person("ann") as ann:
            for url in (site.url, other_url):
                await shown(ann, url, "first")
            await log_out(site, other_url)

            address = f"/jobs/{site.namespace}/first"
            html = (await page(ann, f"{site.url}{address}"))[1]
            form = dict(re.findall(r'name="(csrf|uid)" value="([^"]+)"', html))
            async with ann.get(f"{site.url}/jobs") as answer:
                listed, tag = await answer.text(), answer.headers["ETag"]
            async with ann.get(f"{other_url}/jobs", headers={"If-None-Match": tag}) as answer:
                assert answer.status == 304, "the replicas name the same page differently"
            async with ann.post(f"{other_url}{address}/stop", data=form, allow_redirects=False) as answer:
                assert answer.status == 303, await answer.text()

            async with ann.get(stream_of(listed, root=site.url)) as answer:
                await site.submit("second")
                last, _ = await event(answer, b"second")
                await asyncio.to_thread(site.process.stop)
                async for _ in answer.content:
                    pass  # it ends as a whole answer does: a browser connects again
            assert await site.process.ended() == 0, site.process.tail()

            await shown(ann, other_url, "second")
            again = stream_of(listed, root=other_url)
            async with ann.get(again, headers={"Last-Event-ID": last}) as answer:
                assert answer.status == 200
                await site.submit("third")
                _, came = await event(answer, b"third")
            assert b"&#39;main&#39;" not in came, "the whole page was sent to a tab that shows it"
    finally:
        other.stop()


async def log_out(site: Site, other_url: str) -> None:
    """A log-out at one replica ends the session at the other one, also with a copy of the cookie."""
    async with site.person("ann") as ann:
        html = (await page(ann, f"{other_url}/jobs"))[1]
        copied = {"Cookie": "; ".join(f"{cookie.key}={cookie.value}" for cookie in ann.cookie_jar)}
        form = dict(re.findall(r'name="(csrf)" value="([^"]+)"', html))
        async with ann.post(f"{site.url}/logout", data=form, allow_redirects=False) as answer:
            assert answer.status == 303, await answer.text()

        async def ended() -> bool:
            async with ann.get(f"{other_url}/jobs", headers=copied) as answer:
                return answer.status == 401

        await until(ended, "the other replica takes the cookie of a session that was ended")


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


async def test_without_a_login_nothing_is_shown(site: Site) -> None:
    async with aiohttp.ClientSession(site.url, connector=aiohttp.TCPConnector(ssl=False)) as session:
        for path in ("/", "/jobs", "/live?to=/jobs"):
            assert (await page(session, path))[0] == 401
        async with session.post("/login", data={"token": "forged"}, allow_redirects=False) as answer:
            assert answer.status in (401, 403, 422), answer.status


async def test_silent_connections_make_room_for_a_request(site: Site) -> None:
    """In the process as it is deployed: another event loop accepts connections in another way."""
    most = room(STREAMS)
    url = URL(site.url)
    assert url.host and url.port
    with ExitStack() as silent:
        for _ in range(most + 20):
            silent.enter_context(await asyncio.to_thread(socket.create_connection, (url.host, url.port)))
        async with aiohttp.ClientSession(site.url, connector=aiohttp.TCPConnector(ssl=False)) as session:
            assert (await page(session, "/login"))[0] == 200

    async def made() -> bool:
        return "idle connections end to make room" in site.process.tail()

    await until(made, "no connection ended to make room", report=site.process.tail)
