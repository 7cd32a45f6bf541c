"""The sets of versions: what the environment chooses, a cluster remembers and the documentation says."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster import cluster, paths, state, versions
from devcluster.errors import DevclusterError
from devcluster.progress import Progress
from devcluster.spec import ClusterSpec
from devcluster.state import Record
from devcluster.versions import Versions

SETS = [Versions.named(name) for name in versions.SETS]


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_STATE", str(tmp_path))


@pytest.mark.parametrize("wanted", SETS, ids=str)
def test_the_cache_is_named_by_what_is_built(
    wanted: Versions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOURNOS_CACHE", str(tmp_path))
    before = wanted.cache()
    assert before.parent == tmp_path
    copy = tmp_path / "go"
    for source in paths.GO_SOURCES.rglob("*"):
        if source.is_file():
            target = copy / source.relative_to(paths.GO_SOURCES)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    monkeypatch.setattr(versions, "GO_SOURCES", copy)
    assert wanted.cache() == before
    with (copy / "hyper/main.go").open("a") as file:
        file.write("// changed\n")
    assert wanted.cache() != before


def test_the_environment_names_the_set_and_a_cluster_remembers_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(versions.VARIABLE, "2025")
    spec = ClusterSpec(name="a")
    Record(spec=spec, shape=spec.shape()).save()
    monkeypatch.delenv(versions.VARIABLE)
    assert ClusterSpec(name="a").versions == versions.DEFAULT
    record = state.require("a")
    assert record.spec.version_set == Versions.named("2025")


def test_a_cluster_recorded_before_there_were_sets_has_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(versions.VARIABLE, "2026")
    recorded = ClusterSpec(name="a").to_json()
    del recorded["versions"]
    assert ClusterSpec.from_json(recorded).versions == "2025"


def test_an_unknown_set_is_named_together_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(versions.VARIABLE, "2024")
    with pytest.raises(DevclusterError) as caught:
        ClusterSpec(name="a")
    assert "'2024'" in str(caught.value)
    assert "2025 (Kubernetes v1.34.4" in str(caught.value)
    assert "2026 (Kubernetes v1.36.2, Kueue v0.19.2, Tekton v1.15.0)" in str(caught.value)


def test_a_cluster_of_another_set_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ClusterSpec(name="a")
    Record(spec=spec, shape=spec.shape(), phase="ready").save()
    monkeypatch.setattr(cluster, "healthy", lambda record: True)
    with pytest.raises(DevclusterError) as caught:
        cluster.start(ClusterSpec(name="a", versions="2025"), progress=Progress(quiet=True))
    assert "Cluster a is up with the versions 2026 (" in str(caught.value)
    assert "not 2025 (" in str(caught.value)
    assert "--recreate" in str(caught.value)
