"""An operator in a terminal leads wherever it is started."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.app.parts import PARTS
from fournos.app.run import lease_namespace
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.resource import NAMESPACE
from fournos.systems.clusters.settings import ClusterSettings
from fournos.systems.miniclusters.settings import MiniClusterSettings
from tests.world.server import Server, VirtualClock

DEFAULT = "operator-system"


class Api:
    """The part of the API server that these tests need."""

    def __init__(self, *namespaces: str, forbidden: bool = False) -> None:
        self.server, self.forbidden = Server(VirtualClock()), forbidden
        for name in namespaces:
            self.server.create(NAMESPACE, {"metadata": {"name": name}})

    async def get(self, resource: Any, key: Any) -> Any:
        if self.forbidden:
            raise ForbiddenError("namespaces is forbidden")
        return self.server.get(resource, key)


@pytest.mark.parametrize(
    ("api", "given", "wanted"),
    [
        (Api(), "", "mine"),
        (Api(DEFAULT), "", DEFAULT),
        (Api(forbidden=True), "", DEFAULT),
        (Api(), "said", "said"),
    ],
    ids=["nothing is deployed", "deployed", "cannot be asked", "said"],
)
async def test_the_lease_lies_where_it_can(api: Any, given: str, wanted: str) -> None:
    settings = MiniClusterSettings()
    assert await lease_namespace(api, PARTS["miniclusters"], settings, given, "mine") == wanted


async def test_the_lease_of_hearth_is_with_its_clusters() -> None:
    api: Any = Api()
    part = PARTS["clusters"]
    assert await lease_namespace(api, part, ClusterSettings(namespace="said"), "other", "mine") == "said"
    assert await lease_namespace(api, part, ClusterSettings(), "other", "mine") == "mine"
