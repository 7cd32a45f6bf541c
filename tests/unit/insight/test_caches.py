"""Caches: a Source that reads by watches, and answers as RBAC lets it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.errors import ForbiddenError, NoSuchResourceError, NotFoundError
from fournos.engine.kube.resource import SELF_SUBJECT_ACCESS_REVIEW, Key, Obj, Resource
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, WORKLOAD
from fournos.insight.caches import ObjectCaches, scopes
from fournos.insight.facts import everywhere
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NS, job


def versioned(obj: dict[str, Any]) -> dict[str, Any]:
    obj["metadata"]["resourceVersion"] = "1"
    return obj


class Counting(Api):
    """Counts the lists."""

    def __init__(self, *objects: Obj) -> None:
        super().__init__(*objects)
        self.lists = 0

    async def list(self, *arguments: Any, **options: Any) -> Any:
        self.lists += 1
        return await super().list(*arguments, **options)


async def test_objects_are_read_without_further_requests() -> None:
    api = Counting(versioned(job("one", labels={"a": "b"})), versioned(job("two")))
    async with ObjectCaches(api, {FOURNOS_JOB: ""}) as caches:  # type: ignore[arg-type]
        for _ in range(5):
            assert len((await caches.list(FOURNOS_JOB)).items) == 2
            found = await caches.list(FOURNOS_JOB, namespace=NS, selector="a=b")
            assert [one["metadata"]["name"] for one in found.items] == ["one"]
            assert (await caches.get(FOURNOS_JOB, Key(NS, "two")))["metadata"]["name"] == "two"
        with pytest.raises(NotFoundError):
            await caches.get(FOURNOS_JOB, Key(NS, "gone"))
    assert api.lists == 1


async def test_a_change_of_the_watch_wakes_and_is_read() -> None:
    api = Counting(versioned(job("one", "Running")))
    api.script = [("MODIFIED", job("one", "Succeeded"))]
    async with ObjectCaches(api, {FOURNOS_JOB: NS}) as caches:  # type: ignore[arg-type]
        async with asyncio.timeout(60):
            while (await caches.get(FOURNOS_JOB, Key(NS, "one")))["status"]["phase"] != "Succeeded":
                await caches.change()
    assert api.lists == 1


async def test_a_change_may_be_waited_for_with_a_limit() -> None:
    async with ObjectCaches(Api(), {FOURNOS_JOB: NS}) as caches:  # type: ignore[arg-type]
        await caches.change(within=0.01)


async def test_a_kind_that_is_not_watched_forbidden_or_not_installed() -> None:
    api = Api(versioned(job("one")))
    api.fails["list", WORKLOAD] = ForbiddenError("no", status=403)
    api.fails["list", CLUSTER_QUEUE] = NoSuchResourceError("no kueue", status=404)
    kinds = {FOURNOS_JOB: NS, WORKLOAD: "", CLUSTER_QUEUE: ""}
    async with ObjectCaches(api, kinds) as caches:  # type: ignore[arg-type]
        with pytest.raises(ForbiddenError):
            await caches.list(WORKLOAD)
        for absent in (CLUSTER_QUEUE, Resource("x", "v1", "X", "xs")):
            with pytest.raises(NoSuchResourceError):
                await caches.list(absent)
        assert caches.watch_error is None
        # One namespace is watched: the others are as forbidden as they are at the API server.
        assert len(await everywhere(caches, FOURNOS_JOB, NS)) == 1


async def test_the_scope_of_a_watch_is_what_the_caller_may() -> None:
    class Limited(Api):
        async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
            assert resource is SELF_SUBJECT_ACCESS_REVIEW
            asked = obj["spec"]["resourceAttributes"]
            assert "namespace" not in asked
            return {"status": {"allowed": (asked["resource"], asked["verb"]) != ("workloads", "watch")}}

    found = await scopes(Limited(), (FOURNOS_JOB, WORKLOAD, CLUSTER_QUEUE), NS)  # type: ignore[arg-type]
    assert found == {FOURNOS_JOB: "", WORKLOAD: NS, CLUSTER_QUEUE: ""}
