"""The groups of a cluster, on a folder that has the form of cgroup version 2."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster import cgroups


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.controllers").write_text("cpu memory")
    (tmp_path / "cluster/kubepods/pod-1/container").mkdir(parents=True)
    (tmp_path / "cluster/kubepods/pod-2").mkdir()
    (tmp_path / "other").mkdir()
    return tmp_path


def test_groups_are_removed_below_their_parents_and_no_others(root: Path) -> None:
    cgroups.remove("cluster", root)
    assert sorted(path.name for path in root.iterdir()) == ["cgroup.controllers", "other"]


def test_a_group_that_goes_while_it_is_listed_breaks_nothing_off(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet's own clean-up and the end of the last process remove groups at the same time."""
    listed = os.scandir

    def gone(path: Any = ".") -> Iterator[os.DirEntry[str]]:
        if Path(path).name == "pod-1":
            raise FileNotFoundError(path)
        return listed(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", gone)
        groups = cgroups.find("cluster", root)
    assert root / "cluster" == groups[-1]
    assert root / "cluster/kubepods/pod-2" in groups


def test_the_pods_of_a_cluster_have_more_than_the_share_of_one_process(tmp_path: Path) -> None:
    """A new group has 1024 shares on version 1, as each process outside, and a weight of 100 on version 2."""
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "cpu" / "pods").mkdir(parents=True)
    (first / "cpu" / "pods" / "cpu.shares").write_text("1024")
    (second / "pods").mkdir(parents=True)
    (second / "cgroup.controllers").write_text("cpu memory")
    (second / "pods" / "cpu.weight").write_text("100")
    for root in (first, second):
        cgroups.make("pods", root)
    assert (first / "cpu" / "pods" / "cpu.shares").read_text() == "4096"
    assert (second / "pods" / "cpu.weight").read_text() == "400"
