"""The API over a store in memory and an API server that only reviews: for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from fournos.engine.kube.api import Listing
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import NAMESPACE, SUBJECT_ACCESS_REVIEW, Obj, Resource
from fournos.engine.runtime.decision import User
from fournos.history.api.identity import FrontProxy, HistoryAuthorizer
from fournos.history.api.routes import UnauthorizedError
from fournos.history.api.runs import ROUTES
from fournos.history.api.server import HistoryServer
from fournos.history.api.service import HistoryService
from fournos.history.artifacts import ArtifactLimits
from fournos.history.records import Detail, Document, Identity, KeepMark, Page, Query, Run
from tests.world.server import VirtualClock

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def run(name: str, *, namespace: str = "perf", number: int = 1, **fields: Any) -> Run:
    uid = f"00000000-0000-0000-0000-{number:012d}"
    return Run(
        identity=Identity("here", namespace, uid),
        kind="FournosJob",
        name=name,
        namespace_uid=fields.pop("namespace_uid", f"uid-{namespace}"),
        submitted_at=BEGAN,
        observed_at=BEGAN,
        resource_version=number,
        **fields,
    )


@dataclass
class MemoryStore:
    """Runs in a list.  A stand-in for the database: filters only what these tests filter by."""

    runs: list[Run] = field(default_factory=list)
    kept: dict[str, tuple[str, str]] = field(default_factory=dict)
    documents: dict[tuple[str, Document], Any] = field(default_factory=dict)
    queries: list[Query] = field(default_factory=list)
    error: Exception | None = None

    async def find(self, query: Query) -> Page:
        if self.error:
            raise self.error
        self.queries.append(query)
        return Page(
            tuple(run for run in reversed(self.runs) if self._matches(run, query))[: query.filters.limit]
        )

    def _matches(self, run: Run, query: Query) -> bool:
        return (
            query.scope.includes(run)
            and query.namespace in ("", run.identity.namespace)
            and query.filters.name in ("", run.name)
            and query.uid in ("", run.identity.uid)
            and (not query.filters.kind or run.kind in query.filters.kind)
        )

    async def detail(self, query: Query, documents: Sequence[Document] = ()) -> Detail | None:
        page = await self.find(query)
        if not page.runs:
            return None
        run = page.runs[0]
        found = {one: self.documents.get((run.identity.uid, one)) for one in documents}
        mark = self.kept.get(run.identity.uid)
        return Detail(
            run,
            documents={one: value for one, value in found.items() if value is not None},
            kept=KeepMark(mark[0], BEGAN, mark[1]) if mark else None,
        )

    async def namespaces(self) -> list[tuple[str, str]]:
        return sorted({(run.identity.namespace, run.namespace_uid) for run in self.runs})

    async def keep(self, identity: Identity, on: bool, *, by: str, reason: str, now: datetime) -> bool:
        if on:
            self.kept[identity.uid] = (by, reason)
        else:
            self.kept.pop(identity.uid, None)
        return True

    async def delete(self, identity: Identity) -> None:
        self.runs = [run for run in self.runs if run.identity != identity]


@dataclass
class Reviews:
    """An API server that knows namespaces and rights, and counts what it is asked."""

    rights: set[tuple[str, str, str, str]] = field(default_factory=set)
    """User, verb, resource with subresource, namespace ("" for all)."""
    namespaces: dict[str, str] = field(default_factory=lambda: {"perf": "uid-perf", "other": "uid-other"})
    asked: list[tuple[Resource, Obj]] = field(default_factory=list)
    error: KubeError | None = None

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        self.asked.append((resource, obj))
        if self.error:
            raise self.error
        spec = obj["spec"]
        assert resource == SUBJECT_ACCESS_REVIEW
        attributes = spec["resourceAttributes"]
        assert attributes["group"] == "history.fournos.dev"
        what = "/".join(filter(None, (attributes["resource"], attributes.get("subresource"))))
        namespace = attributes.get("namespace", "")
        right = {(spec["user"], attributes["verb"], what, where) for where in ("", namespace)} & self.rights
        return {"status": {"allowed": bool(right)}}

    async def list(self, resource: Resource, **_: Any) -> Listing:
        assert resource == NAMESPACE
        return Listing(
            [{"metadata": {"name": name, "uid": uid}} for name, uid in self.namespaces.items()], "1"
        )

    def may(self, user: str, *verbs: str, namespace: str = "perf", resource: str = "runs") -> None:
        self.rights |= {(user, verb, resource, namespace) for verb in verbs}


class Tokens(FrontProxy):
    """Stands in for an API server that forwards: the token `t-ann` is the user `ann`."""

    def user(self, request: web.Request) -> User:
        name = request.headers.get("Authorization", "").removeprefix("Bearer t-")
        if name not in ("ann", "root"):
            raise UnauthorizedError("the API server does not know you")
        return User(name=name)


class Service(HistoryService):
    """The service over a store in memory, without blobs."""

    def __init__(self, store: MemoryStore) -> None:
        async def opened() -> Any:
            return store

        blobs: Any = None
        super().__init__(opened, blobs, clock=VirtualClock(BEGAN), limits=ArtifactLimits())

    async def delete(self, identity: Identity) -> None:
        store: Any = await self.store()
        await store.delete(identity)


@dataclass
class Stage:
    """The server under test."""

    client: TestClient[Any, Any]
    store: MemoryStore
    reviews: Reviews
    now: list[float]

    async def get(self, path: str, token: str = "t-ann", **headers: str) -> tuple[int, Any]:
        return await self.send("GET", path, token, headers=headers)

    async def send(self, method: str, path: str, token: str = "t-ann", **given: Any) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= given.pop("headers", {})
        async with self.client.request(method, path, headers=headers, **given) as response:
            text = await response.text()
            return response.status, (await response.json() if text else None)


@asynccontextmanager
async def stage(*, front_proxy: FrontProxy | None = None) -> AsyncIterator[Stage]:
    store, reviews, now = MemoryStore(), Reviews(), [0.0]
    service = Service(store)
    server = HistoryServer(
        ROUTES,
        service,
        reviews,  # type: ignore[arg-type]
        front_proxy or Tokens(),
        HistoryAuthorizer(reviews, service.store, cluster="here", monotonic=lambda: now[0]),  # type: ignore[arg-type]
    )
    async with TestClient(TestServer(server.app())) as client:
        yield Stage(client, store, reviews, now)
