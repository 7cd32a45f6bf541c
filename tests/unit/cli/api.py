"""An API server that holds what a test puts into it, and the program on top of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from fournos.api.kinds import (
    APPWRAPPER,
    FOURNOS_CLUSTER,
    FOURNOS_JOB,
    FOURNOS_SCHEDULE,
    MINICLUSTER,
    PIPELINE_RUN,
    TASK_RUN,
)
from fournos.cli.app import build
from fournos.cli.command import CliSession, Root, World
from fournos.engine.kube.api import Listing, WatchEvent
from fournos.engine.kube.errors import AlreadyExistsError, KubeError, NoSuchResourceError, NotFoundError
from fournos.engine.kube.resource import JOB, POD, SELF_SUBJECT_ACCESS_REVIEW, Key, Obj, Resource, key_of
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.runtime.controller import matcher
from fournos.insight.source import jobs_namespace
from tests.unit.cli.objects import NOW, NS

KINDS = {
    "AppWrapper": APPWRAPPER,
    "FournosCluster": FOURNOS_CLUSTER,
    "FournosJob": FOURNOS_JOB,
    "FournosSchedule": FOURNOS_SCHEDULE,
    "MiniCluster": MINICLUSTER,
    "Workload": WORKLOAD,
    "Job": JOB,
    "PipelineRun": PIPELINE_RUN,
    "TaskRun": TASK_RUN,
    "Pod": POD,
}


class Api:
    """Objects as they are given, watches that tell what a script says, and a record of the writes."""

    def __init__(self, *objects: Obj, **others: Iterable[Obj]) -> None:
        self.objects: dict[Resource, dict[Key, Obj]] = {}
        for obj in objects:
            self.add(KINDS[obj["kind"]], obj)
        named = {"queues": LOCAL_QUEUE, "cluster_queues": CLUSTER_QUEUE, "flavors": RESOURCE_FLAVOR}
        for name, found in others.items():
            for obj in found:
                self.add(named[name], obj)
        self.writes: list[tuple[Any, ...]] = []
        self.fails: dict[tuple[str, Resource], KubeError] = {}
        """(method, resource type) → what it raises."""
        self.script: list[tuple[str, Obj]] = []
        """Watch events, told one after the other to every watch of their kind."""
        self.log_lines: dict[tuple[str, str], list[str]] = {}
        """(pod, container) → lines."""
        self.stored: dict[str, bytes] = {}
        """Path → the answer of the history, which a cluster with one entry has."""
        self.raw_requests: list[tuple[str, str]] = []

    def add(self, resource: Resource, obj: Obj) -> None:
        self.objects.setdefault(resource, {})[key_of(obj)] = obj

    def _check(self, method: str, resource: Resource) -> None:
        error = self.fails.get((method, resource)) or self.fails.get(("*", resource))
        if error:
            raise error

    async def raw(self, method: str, path: str, *_: object, **__: object) -> bytes:
        """Answers what `stored` has; without it the API server has no history."""
        self.raw_requests.append((method, path))
        try:
            return self.stored[path]
        except KeyError:
            if self.stored:
                raise NotFoundError(f"{path} not found", status=404) from None
            raise NoSuchResourceError("404 page not found", status=404) from None

    async def raw_stream(self, path: str) -> AsyncGenerator[bytes, None]:
        whole = await self.raw("GET", path)

        async def pieces() -> AsyncGenerator[bytes, None]:
            yield whole

        return pieces()

    async def get(self, resource: Resource, key: Key) -> Obj:
        self._check("get", resource)
        try:
            return self.objects.get(resource, {})[key]
        except KeyError:
            raise NotFoundError(f'{resource} "{key.name}" not found', status=404) from None

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        fields: str = "",
        page_size: int = 500,
        keep: Callable[[Obj], Obj] | None = None,
    ) -> Listing:
        self._check("list", resource)
        if resource.group.startswith("visibility"):
            raise NoSuchResourceError("not served", status=404)
        matches = matcher(selector)
        return Listing(
            [
                obj
                for key, obj in self.objects.get(resource, {}).items()
                if namespace in ("", key.namespace)
                and matches(obj["metadata"].get("labels") or {})
                and fields in ("", f"regarding.uid={(obj.get('regarding') or {}).get('uid')}")
            ],
            "1",
        )

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        self._check("create", resource)
        if resource is SELF_SUBJECT_ACCESS_REVIEW:
            return {"status": {"allowed": True}}
        meta = dict(obj["metadata"])
        if "name" not in meta:
            taken = {key.name for key in self.objects.get(resource, {})}
            names = (f"{meta['generateName']}x7k{number}m" for number in range(2, 100))
            meta["name"] = next(name for name in names if name not in taken)
        made = {**obj, "metadata": {**meta, "uid": f"uid-{meta['name']}"}}
        if key_of(made) in self.objects.get(resource, {}):
            raise AlreadyExistsError(f'fournosjobs.fournos.dev "{meta["name"]}" already exists', status=409)
        self.writes.append(("dry run" if dry_run else "create", obj))
        if not dry_run:
            self.add(resource, made)
        return made

    async def patch(self, resource: Resource, key: Key, body: Obj, *, subresource: str | None = None) -> Obj:
        self._check("patch", resource)
        self.writes.append(("patch", str(key), body))
        return self.objects[resource][key]

    async def delete(self, resource: Resource, key: Key, *, uid: str | None = None, **_: Any) -> None:
        self._check("delete", resource)
        self.writes.append(("delete", str(key), uid))

    async def watch(
        self, resource: Resource, *, namespace: str = "", selector: str = "", resource_version: str
    ) -> AsyncIterator[WatchEvent]:
        version = int(resource_version)
        for type_, obj in self.script:
            version += 1
            if KINDS[obj["kind"]] is resource and version > int(resource_version):
                meta = {**obj["metadata"], "resourceVersion": str(version)}
                yield WatchEvent(type_, {**obj, "metadata": meta})  # type: ignore[arg-type]
        await _for_ever()

    async def logs(
        self,
        pod: Key,
        *,
        container: str | None = None,
        tail: int | None = None,
        limit_bytes: int | None = None,
        follow: bool = False,
    ) -> AsyncIterator[str]:
        self._check("logs", POD)
        lines = self.log_lines.get((pod.name, str(container)), [])
        return _each(lines if tail is None else lines[len(lines) - tail :])


async def _for_ever() -> None:
    import asyncio

    await asyncio.Event().wait()


async def _each(lines: list[str]) -> AsyncIterator[str]:
    for line in lines:
        yield line


class Program:
    """`fournos` with an API of its own; keeps how it was asked to connect."""

    def __init__(self, api: Api, *, env: dict[str, str] | None = None) -> None:
        self.api = api
        self.connected: list[tuple[Path | None, str | None]] = []
        self.env: dict[str, str | None] = {
            "FOURNOS_NAMESPACE": None,
            "FOURNOS_OWNER": None,
            "FOURNOS_DEBUG": None,
            "COLUMNS": "110",
            "NO_COLOR": "1",
            **(env or {}),
        }

    def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        root = Root(World(connect=self._connect, now=lambda: NOW))
        return CliRunner(env=self.env).invoke(build(), list(arguments), obj=root, input=stdin)

    @asynccontextmanager
    async def _connect(
        self, kubeconfig: Path | None, context: str | None, namespace: str | None, owner: str
    ) -> AsyncIterator[CliSession]:
        self.connected.append((kubeconfig, context))
        where = namespace or jobs_namespace() or NS
        yield CliSession(api=self.api, namespace=where, owner=owner)  # type: ignore[arg-type]
