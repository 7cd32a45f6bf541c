"""Whose runs a person may read from the history."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

import pytest

from fournos.kube.resource import Resource
from fournos.web.recorded_namespaces import RUNS, recorded_namespaces
from fournos.web.routes import Call
from tests.unit.cli.api import Api
from tests.unit.cli.objects import job
from tests.unit.web.calls import call


@dataclass(frozen=True, slots=True)
class Reader:
    """May read the runs of these namespaces; "" means all."""

    namespaces: Set[str]

    async def may(self, verb: str, resource: Resource, namespace: str = "", **_: str) -> bool:
        assert (verb, resource) == ("list", RUNS)
        return namespace in self.namespaces

    async def permission_class(self) -> str:
        return ""


def asked(readable: Set[str], *, shown: str = "") -> Call:
    jobs = [job(f"of-{name}", "Running") for name in ("a", "b", "c")]
    for one, namespace in zip(jobs, "abc", strict=True):
        one["metadata"]["namespace"] = namespace
    found = call(Api(*jobs), rights=Reader(readable))  # type: ignore[arg-type]
    return replace(found, site=replace(found.site, jobs_namespace=shown))


@pytest.mark.parametrize(
    ("readable", "expected"),
    [({""}, ("",)), ({"a", "c", "gone"}, ("a", "c")), (set(), ("",))],
    ids=["all", "those with jobs", "none: the request has the reason"],
)
async def test_namespaces_whose_runs_are_read(readable: set[str], expected: tuple[str, ...]) -> None:
    assert await recorded_namespaces(asked(readable)) == expected


async def test_a_page_of_one_namespace_reads_that_one() -> None:
    assert await recorded_namespaces(asked(set(), shown="b")) == ("b",)
