"""Names, shapes, records, and which process is which."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from devcluster import state
from devcluster.cluster import differs_in_kueue_alone
from devcluster.errors import DevclusterError
from devcluster.locks import file_lock
from devcluster.spec import ClusterSpec
from devcluster.state import ProcessRef, Record


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_STATE", str(tmp_path))


@pytest.mark.parametrize("name", ["", "Team", "9lives", "a_b", "a-", "a" * 31, "../x", "a/b"])
def test_a_name_that_linux_or_kubernetes_would_refuse_is_refused(name: str) -> None:
    with pytest.raises(DevclusterError, match="cannot name a cluster"):
        ClusterSpec(name=name)


@pytest.mark.parametrize("name", ["a", "team", "team-cp", "a" * 30, "t1"])
def test_a_good_name_is_taken(name: str) -> None:
    assert ClusterSpec(name=name).name == name


def test_an_unknown_part_is_named_together_with_the_known_ones() -> None:
    with pytest.raises(DevclusterError) as caught:
        ClusterSpec(name="a", without=frozenset({"istio"}))
    assert "istio" in str(caught.value)
    assert "tekton, kueue" in str(caught.value)


def test_the_existing_provider_needs_a_kubeconfig() -> None:
    with pytest.raises(DevclusterError, match="--kubeconfig"):
        ClusterSpec(name="a", provider="existing")


def test_everything_that_makes_a_cluster_differ_changes_its_shape() -> None:
    plain = ClusterSpec(name="a")
    others = [
        ClusterSpec(name="b"),
        ClusterSpec(name="a", profile="control-plane"),
        ClusterSpec(name="a", without=frozenset({"kueue"})),
        ClusterSpec(name="a", kueue_config={"metrics": {}}),
        ClusterSpec(name="a", controllers="*"),
        ClusterSpec(name="a", versions="2025"),
    ]
    assert len({spec.shape() for spec in (plain, *others)}) == len(others) + 1
    assert plain.shape() == ClusterSpec(name="a").shape()


def test_a_record_survives_being_written_and_read() -> None:
    spec = ClusterSpec(name="a", without=frozenset({"tekton"}), kueue_config={"x": [1]}, controllers="*")
    record = Record(
        spec=spec,
        shape="s",
        index=7,
        phase="ready",
        processes={"etcd": ProcessRef(12, 34)},
        commands={"etcd": ["hyper", "etcd"]},
    )
    record.save()
    assert state.load("a") == record
    assert state.names() == ["a"]
    assert record.directory.stat().st_mode & 0o777 == 0o700


def test_an_unreadable_record_is_named() -> None:
    Record(spec=ClusterSpec(name="a"), shape="s").save()
    (state.cluster_directory("a") / "cluster.json").write_text("{}")
    with pytest.raises(DevclusterError, match="Another version"):
        state.load("a")


def test_an_unknown_cluster_is_reported_with_the_known_ones() -> None:
    Record(spec=ClusterSpec(name="known"), shape="s").save()
    with pytest.raises(DevclusterError, match="known"):
        state.require("unknown")


def test_removal_leaves_no_file(tmp_path: Path) -> None:
    record = Record(spec=ClusterSpec(name="a"), shape="s")
    record.save()
    (record.directory / "log").mkdir()
    state.remove("a")
    assert not record.directory.exists()
    assert state.load("a") is None


def test_a_process_is_known_by_its_start_time_too() -> None:
    me = state.reference(os.getpid())
    assert state.alive(me)
    assert not state.alive(ProcessRef(me.pid, me.started + 1))


def test_a_process_that_ended_is_not_alive_even_before_its_parent_looks() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie from here on
        zombie = state.reference(process.pid)
        assert not state.alive(zombie)
    assert not state.alive(zombie)


def test_a_lock_is_exclusive_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "below" / "lock"
    with (
        file_lock(path, limit=1, what="it"),
        pytest.raises(DevclusterError, match="the other is busy"),
        file_lock(path, limit=0, what="the other"),
    ):
        pass
    assert not path.exists()
    with file_lock(path, limit=0, what="it again"):
        assert path.exists()


def test_a_kueue_is_started_anew_where_nothing_but_its_configuration_differs() -> None:
    spec = ClusterSpec(name="a", profile="control-plane", kueue_config={"x": 1})
    programs = {"etcd": ProcessRef(1, 1), "kueue": ProcessRef(2, 2)}
    found = Record(spec=spec, shape=spec.shape(), processes=programs)
    assert differs_in_kueue_alone(found, replace(spec, kueue_config={"x": 2}))
    assert not differs_in_kueue_alone(found, spec)
    assert not differs_in_kueue_alone(found, replace(spec, kueue_config={"x": 2}, controllers="*"))
    assert not differs_in_kueue_alone(replace(found, shape="of others"), replace(spec, kueue_config={}))
    in_a_pod = replace(found, processes={"etcd": ProcessRef(1, 1)})
    assert not differs_in_kueue_alone(in_a_pod, replace(spec, kueue_config={}))
