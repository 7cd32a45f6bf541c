"""The page in a cluster, served over HTTP for tests; the API server in memory reviews tokens and rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import ClientResponse, CookieJar
from aiohttp.test_utils import TestClient, TestServer

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.errors import KubeError, NoSuchResourceError
from fournos.engine.kube.resource import (
    SELF_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_RULES_REVIEW,
    SUBJECT_ACCESS_REVIEW,
    TOKEN_REVIEW,
    Obj,
    Resource,
)
from fournos.engine.runtime.listening import OPTIONS
from fournos.insight.caches import ObjectCaches
from fournos.web.pages.all_pages import ACTIONS, DOWNLOADS, PAGES, WATCHED
from fournos.web.pages.fleet import PAGE as FLEET
from fournos.web.people import TOKEN_HEADER, Members, TrustedProxy
from fournos.web.render import Renderer
from fournos.web.rights import Questions
from fournos.web.server import WebServer
from fournos.web.site import Action, Call, Done, Page, Site
from tests.world.connection import Connection
from tests.world.server import Server

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NS = "perf"
HEADER = TOKEN_HEADER


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.at)

    def monotonic(self) -> float:
        return self.at


class Cluster(Connection):
    """An API server with reviews.  `rights`: user, verb, resource, namespace; "" stands for all of them."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.users = {"t-ann": "ann", "t-ben": "ben"}
        self.groups: dict[str, list[str]] = {}
        self.rights: set[tuple[str, str, str, str]] = set()
        self.reviews: list[tuple[Resource, Obj]] = []
        self.error: KubeError | None = None
        self.hold: asyncio.Event | None = None
        self.bearers: list[str] = []
        self.impersonated: list[tuple[tuple[str, str], ...]] = []
        self.incomplete = False
        """An authorizer that cannot list its rules is asked, too."""
        self.groups_to_impersonate: set[str] = set()
        self.own_reviews: list[Resource] = []
        """What our ServiceAccount has asked of its own rights."""

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        if resource == SELF_SUBJECT_RULES_REVIEW:
            self.own_reviews.append(resource)
            names = sorted(self.groups_to_impersonate)
            rule = {
                "verbs": ["impersonate"],
                "apiGroups": [""],
                "resources": ["groups"],
                "resourceNames": names,
            }
            return {"status": {"incomplete": self.incomplete, "resourceRules": [rule] if names else []}}
        if resource == SELF_SUBJECT_ACCESS_REVIEW:
            self.own_reviews.append(resource)
            asked = obj["spec"]["resourceAttributes"]
            assert (asked["verb"], asked["resource"]) == ("impersonate", "groups")
            return {"status": {"allowed": asked["name"] in self.groups_to_impersonate}}
        if resource not in (TOKEN_REVIEW, SUBJECT_ACCESS_REVIEW):
            return await super().create(resource, obj, dry_run=dry_run)
        self.reviews.append((resource, obj))
        if self.hold:
            await self.hold.wait()
        if self.error:
            raise self.error
        spec = obj["spec"]
        if resource == TOKEN_REVIEW:
            name = self.users.get(spec["token"])
            user = {"username": name, "groups": self.groups.get(name, [])} if name else {}
            return {"status": {"authenticated": bool(name), "user": user}}
        asked = spec["resourceAttributes"]
        what = "/".join(filter(None, (asked["resource"], asked.get("subresource"))))
        places = {"", asked.get("namespace", "")}
        names = [spec["user"], *spec.get("groups", ())]
        found = {
            (name, verb, kind, place)
            for name in names
            for verb in (asked["verb"], "*")
            for kind in (what, "*")
            for place in places
        }
        return {"status": {"allowed": bool(found & self.rights)}}

    async def raw(self, method: str, path: str, *_: object, **__: object) -> bytes:
        raise NoSuchResourceError("404 page not found", status=404)

    async def raw_get(self, path: str) -> bytes:
        return await self.raw("GET", path)

    async def raw_stream(self, path: str) -> AsyncIterator[bytes]:
        yield await self.raw("GET", path)

    async def log_stream(self, *_: object, **__: object) -> AsyncIterator[bytes]:
        yield await self.raw("GET", "log")

    async def server_version(self) -> str:
        return "v1.35.0"

    def rules(self, names: set[str], namespace: str) -> Obj:
        """The answer to a SelfSubjectRulesReview of someone with these names: of the user and the groups."""
        resources = {resource.plural: resource.group for resource in WATCHED}
        rules = [
            {"verbs": [verb], "resources": [kind], "apiGroups": [resources.get(kind.partition("/")[0], "*")]}
            for name, verb, kind, place in self.rights
            if name in names and place in ("", namespace)
        ]
        return {"status": {"incomplete": self.incomplete, "resourceRules": rules, "nonResourceRules": []}}

    def bearing(self, token: str, **_: Any) -> Acting:
        self.bearers.append(token)
        name = self.users.get(token, "")
        return Acting(self, {name, *self.groups.get(name, ())})

    def impersonating(self, headers: tuple[tuple[str, str], ...], **_: Any) -> Acting:
        self.impersonated.append(headers)
        return Acting(self, {value for _, value in headers})

    def of(self, kind: Resource) -> list[Obj]:
        """The reviews that were created."""
        return [obj for resource, obj in self.reviews if resource == kind]

    def reviewed_namespaces(self) -> list[str]:
        """The namespaces of SubjectAccessReviews."""
        asked = (obj["spec"]["resourceAttributes"] for obj in self.of(SUBJECT_ACCESS_REVIEW))
        return [attributes["namespace"] for attributes in asked if attributes.get("namespace")]


class Acting:
    """The same API server with the credentials of a user."""

    def __init__(self, cluster: Cluster, names: set[str]) -> None:
        self._cluster = cluster
        self._names = names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        if resource != SELF_SUBJECT_RULES_REVIEW:
            return await self._cluster.create(resource, obj, dry_run=dry_run)
        self._cluster.reviews.append((resource, obj))
        if self._cluster.error:
            raise self._cluster.error
        return self._cluster.rules(self._names, obj["spec"]["namespace"])


@dataclass
class Stage:
    """The server under test."""

    client: TestClient[Any, Any]
    cluster: Cluster
    server: Server
    clock: Clock
    web: WebServer
    caches: ObjectCaches
    done: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Person and form of each write."""

    async def login(self, token: str = "t-ann") -> None:
        """From now on a proxy in front sends this token of a person with each request."""
        self.client.session.headers[HEADER] = token

    async def post(
        self, path: str, form: dict[str, Any], *, headers: dict[str, str] | None = None, **given: Any
    ) -> ClientResponse:
        """Sends a form as a browser does; `headers` in place of what a browser says of its origin."""
        sent = {"Sec-Fetch-Site": "same-origin"} if headers is None else headers
        return await self.client.post(path, data=form, allow_redirects=False, headers=sent, **given)

    async def get(self, path: str, **given: Any) -> tuple[int, str]:
        async with self.client.get(path, allow_redirects=False, **given) as response:
            return response.status, await response.text()

    def job(self, name: str, namespace: str = NS, **spec: Any) -> Obj:
        return self.server.create(
            FOURNOS_JOB,
            {
                "apiVersion": "fournos.dev/v1",
                "kind": "FournosJob",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"owner": "ann", **spec},
                "status": {"phase": "Running", "cluster": "alpha"},
            },
        )

    def may(self, user: str, *rights: tuple[str, str, str]) -> None:
        self.cluster.rights |= {(user, *right) for right in rights}


async def names(call: Call) -> dict[str, Any]:
    """A page with the names of all jobs that the person may read, and a form for those who may delete."""
    found = await call.viewer.source.list(FOURNOS_JOB)
    return {
        "names": [one["metadata"]["name"] for one in found.items],
        "may_delete": await call.viewer.rights.may("delete", FOURNOS_JOB, NS),
    }


ADMIN = [("*", "*", "")]
NAMES = Page(name="names", title="Names", path="/names", gather=names, watched=(FOURNOS_JOB,))


def renderer() -> Renderer:
    """The renderer with the template of NAMES."""
    found = Renderer()
    loader = found._environment.loader
    assert loader is not None
    source = (
        '<ul id="names">{% for name in names %}<li>{{ name }}</li>{% endfor %}</ul>'
        '{% if may_delete %}<form method="post"></form>'
        "{% endif %}"
    )
    get = loader.get_source
    loader.get_source = lambda environment, template: (  # type: ignore[method-assign]
        (source, None, None) if template == "names.html" else get(environment, template)
    )
    return found


@asynccontextmanager
async def stage(
    proxy: TrustedProxy | None = None,
    *,
    hosts: frozenset[str] = frozenset(),
    whole: bool = False,
    pages: Sequence[Page] = (FLEET, NAMES),
) -> AsyncIterator[Stage]:
    """`whole`: with all pages, actions and downloads."""
    server, clock = Server(), Clock()
    cluster = Cluster(server)
    api: Any = cluster
    async with ObjectCaches(api, dict.fromkeys(WATCHED, "")) as caches:
        questions = Questions(WATCHED, caches.namespaces)
        people = Members(api, caches, questions, namespace=NS, monotonic=clock.monotonic, proxy=proxy)
        site = Site(caches, "", "hearth", clock.now, renderer())
        done: list[tuple[str, dict[str, str]]] = []

        async def act(call: Call, form: Any) -> Done:
            done.append((call.viewer.name, dict(form)))
            if form.get("fail"):
                raise KubeError("no", status=int(form["fail"]))
            return Done("/", "It is done.")

        action = Action(name="act", path="/act/{name}", act=act)
        web = WebServer(
            site,
            people,
            (*PAGES, NAMES) if whole else pages,
            (*ACTIONS, action) if whole else (action,),
            DOWNLOADS,
            hosts=hosts,
            monotonic=clock.monotonic,
        )
        test_server = TestServer(web.app())
        await test_server.start_server(**OPTIONS)
        async with TestClient(test_server, cookie_jar=CookieJar(unsafe=True)) as client:
            yield Stage(client, cluster, server, clock, web, caches, done)
