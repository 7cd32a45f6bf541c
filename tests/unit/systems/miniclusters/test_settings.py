"""Each variable of the MiniCluster operator is seen in the objects that it makes.

Whether quota is given back: test_queued.
"""

from __future__ import annotations

import pytest

from fournos.engine.api.conditions import condition
from fournos.systems.miniclusters import build
from fournos.systems.miniclusters.settings import MiniClusterSettings
from tests.unit.systems.miniclusters.actors import get
from tests.unit.systems.miniclusters.objects import minicluster
from tests.unit.systems.miniclusters.stories import ends_with, story
from tests.world.harness import run


@pytest.mark.parametrize(
    ("variable", "value", "seen"),
    [
        ("VIEW_IMAGE", "example.com/view:7", "'image': 'example.com/view:7'"),
        ("CLUSTER_DOMAIN", "cluster.example", ".svc.cluster.example"),
        ("NETWORK_DEVICE", "net7", "tcp://net7:"),
    ],
)
def test_it_is_seen_in_the_objects(
    variable: str, value: str, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seen not in str(build.wanted(minicluster(), MiniClusterSettings()))
    monkeypatch.setenv(f"FOURNOS_MINICLUSTER_{variable}", value)
    assert seen in str(build.wanted(minicluster(), MiniClusterSettings()))


@pytest.mark.parametrize(("seconds", "expected"), [("7", "00:00:07"), ("700", "00:11:40")])
async def test_how_long_containers_beside_flux_may_take_to_end(
    seconds: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURNOS_MINICLUSTER_END_GRACE_SEC", seconds)
    case = story(world=ends_with(0, beside=True), settings=MiniClusterSettings())
    finished = condition(get((await run(case)).server), "JobFinished") or {}
    assert (finished["reason"], finished["lastTransitionTime"]) == ("Succeeded", f"2030-01-01T{expected}Z")
