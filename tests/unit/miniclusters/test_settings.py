"""Each variable of the MiniCluster operator is seen in the objects that it makes.

How long an end may take, and whether quota is given back: test_ends and test_queued.
"""

from __future__ import annotations

import pytest

from fournos.miniclusters import build
from fournos.miniclusters.settings import MiniClusterSettings
from tests.unit.miniclusters.objects import minicluster


@pytest.mark.parametrize(
    ("variable", "value", "seen"),
    [
        ("VIEW_IMAGE", "example.com/view:7", "'image': 'example.com/view:7'"),
        ("CLUSTER_DOMAIN", "cluster.example", ".svc.cluster.example"),
        ("NETWORK_DEVICE", "net7", "tcp://net7:"),
        ("DRAIN_GRACE_SEC", "777", "777"),
    ],
)
def test_it_is_seen_in_the_objects(
    variable: str, value: str, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seen not in str(build.wanted(minicluster(), MiniClusterSettings()))
    monkeypatch.setenv(f"FOURNOS_MINICLUSTER_{variable}", value)
    assert seen in str(build.wanted(minicluster(), MiniClusterSettings()))
