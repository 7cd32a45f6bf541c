"""One poisoned object ends no page and no list: the others are shown, and it with its problem.

An API server refuses most of these, and not all: a CRD of another release has other types, and a quantity may
be any text.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import pytest

from fournos.api.kinds import APPWRAPPER, FOURNOS_CLUSTER, FOURNOS_JOB, FOURNOS_SCHEDULE, MINICLUSTER
from fournos.web.pages import fleet, jobs, kinds, schedules
from fournos.web.server import PageContent
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import FLAVORS, ago, cluster_queue, job, local_queue
from tests.unit.cli.schedules import schedule
from tests.unit.cli.test_appwrapper import wrapper
from tests.unit.cli.test_minicluster_live import minicluster
from tests.unit.insight.test_fleet import cluster as fournos_cluster
from tests.unit.web.calls import call, shown, text

ODD: Final[tuple[Any, ...]] = ("text", 7, 10**400, 1.7e308, True, [], ["a", 1], {"a": {"b": 1}}, None)


def odd(obj: Any, value: Any, *, depth: int) -> Any:
    """The object with this value in place of every field of this depth."""
    if depth == 0 or not isinstance(obj, dict):
        return value
    return {name: odd(inner, value, depth=depth - 1) for name, inner in obj.items()}


def poisoned(obj: dict[str, Any], place: str, value: Any, depth: int, name: str = "poison") -> Any:
    """A copy of the object with an odd value in its spec or status."""
    meta = {**obj["metadata"], "name": name, "uid": f"uid-{name}"}
    return {**obj, "metadata": meta, place: odd(obj.get(place) or {}, value, depth=depth)}


def of_job(name: str = "good", phase: str = "Pending") -> dict[str, Any]:
    times = {"pending": ago(minutes=5), "admitted": ago(minutes=4), "running": ago(minutes=3)}
    attempts = [{"number": 1, "cluster": "cluster-1", "startedAt": ago(minutes=3)}]
    hardware = {"gpuType": "a100", "gpuCount": 2}
    status = {"cluster": "cluster-1", "phaseTimes": times, "attempts": attempts, "hardware": hardware}
    return job(name, phase, status={**status, "message": "waits", "attempt": 1})


GOOD: Final = {
    FOURNOS_JOB: of_job(),
    FOURNOS_CLUSTER: fournos_cluster("good", ("a100", 8)),
    FOURNOS_SCHEDULE: schedule("good"),
    APPWRAPPER: wrapper("good"),
    MINICLUSTER: minicluster("good"),
}
CASES: Final = [(place, value, depth) for place in ("spec", "status") for depth in (0, 1, 2) for value in ODD]
LISTS: Final = {
    FOURNOS_JOB: (("list",), ("list", "-o", "wide", "--sort-by", "ran", "-L", "team")),
    FOURNOS_CLUSTER: (("cluster", "list", "-n", "hearth"), ("cluster", "list", "-o", "wide", "-n", "hearth")),
    FOURNOS_SCHEDULE: (("schedule", "list"), ("schedule", "list", "-o", "wide")),
    APPWRAPPER: (("appwrapper", "list"), ("appwrapper", "list", "-o", "wide")),
    MINICLUSTER: (("minicluster", "list"), ("minicluster", "list", "-o", "wide")),
}
PAGES: Final = {
    FOURNOS_JOB: (jobs.PAGE, fleet.PAGE),
    FOURNOS_CLUSTER: (fleet.PAGE,),
    FOURNOS_SCHEDULE: (schedules.PAGE,),
    APPWRAPPER: (kinds.PAGE,),
    MINICLUSTER: (kinds.PAGE,),
}


def world(*objects: Any) -> Api:
    return Api(*objects, queues=[local_queue()], cluster_queues=[cluster_queue()], flavors=FLAVORS)


@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: kind.kind)
def test_each_list_shows_the_others(kind: Any) -> None:
    bad = [poisoned(GOOD[kind], *case, name=f"poison-{number}") for number, case in enumerate(CASES)]
    for words in LISTS[kind]:
        result = Program(world(GOOD[kind], *bad))(*words)
        assert result.exit_code == 0, result.output
        names = {line.split()[0] for line in result.stdout.splitlines()[1:]}
        assert names == {"good", *(one["metadata"]["name"] for one in bad)}


@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: kind.kind)
async def test_each_page_shows_the_others(kind: Any) -> None:
    for place, value, depth in CASES:
        for page in PAGES[kind]:
            asked = call(world(GOOD[kind], poisoned(GOOD[kind], place, value, depth)))
            words = text((await PageContent(asked.site).of(page, asked, page.path)).html)
            assert "good" in words and "poison" in words, (place, value, depth, page.name)


async def test_jobs_whose_namespace_and_name_join_alike_have_pieces_of_their_own() -> None:
    first, second = of_job("a-bench", "Running"), of_job("bench", "Running")
    first["metadata"]["namespace"], second["metadata"]["namespace"] = "team", "team-a"
    asked = call(Api(first, second))
    asked = replace(asked, site=replace(asked.site, jobs_namespace=""))
    ids = re.findall(r' id="(running-[^"]*)"', await shown(fleet.PAGE, asked))
    assert len(ids) == len(set(ids)) == 2 + 1, ids
