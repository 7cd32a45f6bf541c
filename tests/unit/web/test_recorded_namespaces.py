"""Whose runs a person may read from the history."""

from __future__ import annotations

from collections.abc import AsyncIterator, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Resource
from fournos.engine.queueing.workload import LOCAL_QUEUE
from fournos.web.rights import RUNS, Permitted, home, recorded_namespaces
from fournos.web.site import Call
from tests.unit.client.world import NS, SPEC, Api
from tests.unit.web.page import visit


@dataclass(frozen=True, slots=True)
class Reader:
    """May list the runs of these namespaces, "" means all, and the jobs of `jobs`."""

    namespaces: Set[str]
    jobs: Set[str] = frozenset()

    async def may(self, verb: str, resource: Resource, namespace: str = "", **_: str) -> bool:
        assert verb == "list"
        return namespace in {RUNS: self.namespaces, FOURNOS_JOB: self.jobs}.get(resource, frozenset())

    async def permission_class(self) -> str:
        return ""


@asynccontextmanager
async def reading(rights: Any, *, shown: str = "", queues: Set[str] = frozenset()) -> AsyncIterator[Call]:
    """There is a job in each of a, b and c."""
    api = Api()
    for name in "abc":
        await api.create(FOURNOS_JOB, {"metadata": {"name": "one", "namespace": name}, "spec": SPEC})
    for name in queues:
        await api.create(LOCAL_QUEUE, {"metadata": {"name": "queue", "namespace": name}})
    async with visit(api, rights) as here:
        source = Permitted(here.site.caches, rights.may, lambda: "abc")
        call = here.call()
        viewer = replace(call.viewer, source=source)
        yield replace(call, viewer=viewer, site=replace(here.site, jobs_namespace=shown))


@pytest.mark.parametrize(
    ("readable", "expected"),
    [({""}, ("",)), ({"a", "c", "gone"}, ("a", "c")), (set(), ("",))],
    ids=["all", "those with jobs", "none: the request has the reason"],
)
async def test_namespaces_whose_runs_are_read(readable: set[str], expected: tuple[str, ...]) -> None:
    async with reading(Reader(readable)) as call:
        assert await recorded_namespaces(call) == expected


async def test_a_right_counts_that_is_given_for_the_runs_alone() -> None:
    """Without a job that is left, and without the right to read jobs or queues."""
    async with reading(Reader({"q"}), queues={"q"}) as call:
        assert await recorded_namespaces(call) == ("q",)


async def test_a_right_counts_in_the_last_of_many_namespaces() -> None:
    many = {f"n{number:03}" for number in range(120)}
    async with reading(Reader({"n119"}), queues=many) as call:
        assert await recorded_namespaces(call) == ("n119",)


async def test_without_any_right_the_reason_is_of_a_namespace_that_the_person_sees() -> None:
    async with reading(Reader(set(), jobs={"b", "c"})) as call:
        assert await recorded_namespaces(call) == ("b",)


async def test_a_page_of_one_namespace_reads_that_one() -> None:
    async with reading(Reader(set()), shown="b") as call:
        assert await recorded_namespaces(call) == ("b",)


@pytest.mark.parametrize(
    ("readable", "expected"), [({""}, NS), ({"b", "c"}, "b"), ({"b", NS}, NS), (set(), NS)]
)
async def test_a_run_without_a_namespace_is_in_one_that_the_person_may_read(
    readable: set[str], expected: str
) -> None:
    async with reading(Reader(readable), queues={NS}) as call:
        assert await home(call) == expected
