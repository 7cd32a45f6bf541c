"""Clusters of these tests only: their state is in a temporary directory, and nothing of it may stay."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import Cluster, down, state, up
from devcluster.progress import Progress
from tests.e2e.devcluster.traces import traces

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the native provider needs root")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.setup)
            item.add_marker(needs_root)


@pytest.fixture(scope="module", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The state directory, below /tmp: a place that the clusters' own mounts hide and must show again."""
    root = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FOURNOS_STATE", str(root))
        yield root
        left = traces(root)
        for name in state.names():  # a failed test must not leave its cluster to the next one
            down(name, progress=Progress(quiet=True))
    assert left == []


@pytest.fixture(scope="module")
def quiet() -> Progress:
    return Progress(quiet=True)


@pytest.fixture(scope="module")
def node(own_state: Path, quiet: Progress) -> Iterator[Cluster]:
    """A full cluster with Kueue: its aggregated API is what namespaces wait for when it is broken."""
    yield up("e2e-node", without={"tekton"}, progress=quiet)
    assert down("e2e-node", progress=quiet)
