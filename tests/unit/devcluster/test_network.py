"""Which subnet a new cluster takes, and the groups of its processes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from devcluster import cgroups, network
from devcluster.errors import DevclusterError
from devcluster.network import Network, choose_index


@pytest.mark.parametrize(
    ("recorded", "in_use", "index"),
    [
        ((), (), 1),
        ({1, 2, 4}, (), 3),
        ((), ("10.240.1.0/24", "10.240.2.128/25", "192.168.0.0/16"), 3),
        (range(1, 254), (), 254),
    ],
    ids=["empty machine", "recorded, without an interface", "addresses or routes", "254 are the limit"],
)
def test_the_first_free_subnet_is_taken(recorded: Collection[int], in_use: Sequence[str], index: int) -> None:
    assert choose_index(recorded=recorded, in_use=[IPv4Network(one) for one in in_use]) == index


@pytest.mark.parametrize(
    ("recorded", "in_use", "message"),
    [((), [IPv4Network("10.0.0.0/8")], "No free subnet"), (range(1, 255), [], "list")],
    ids=["a route over all subnets", "254 clusters"],
)
def test_no_free_subnet_is_reported(
    recorded: Collection[int], in_use: Sequence[IPv4Network], message: str
) -> None:
    with pytest.raises(DevclusterError, match=message):
        choose_index(recorded=recorded, in_use=in_use)


def test_names_fit_linux() -> None:
    longest = Network(254, "a" * 30)
    assert len(longest.interface) <= 15
    assert longest.node_ip == "10.240.254.2"
    assert longest.host_ip == "10.240.254.1"


def test_two_clusters_share_no_name() -> None:
    one, two = Network(1, "same"), Network(2, "same")
    assert {one.namespace, one.interface, one.cgroup}.isdisjoint({two.namespace, two.interface, two.cgroup})


def _hierarchy(root: Path, name: str, **files: str) -> None:
    (root / name).mkdir(parents=True)
    for file, text in files.items():
        (root / name / file.replace("__", ".")).write_text(text)


def test_a_proxy_of_the_user_is_passed_by_and_what_the_user_excludes_stays() -> None:
    assert network.past_proxies({"PATH": "/bin", "NO_PROXY": "a"}) == []
    for name in ("HTTPS_PROXY", "https_proxy", "http_proxy"):
        assert network.past_proxies({name: "http://p"}) == [
            "env",
            "NO_PROXY=10.240.0.0/16",
            "no_proxy=10.240.0.0/16",
        ]
    for name in ("NO_PROXY", "no_proxy"):
        words = network.past_proxies({"HTTPS_PROXY": "http://p", name: "localhost,.example.com"})
        assert words[1] == "NO_PROXY=localhost,.example.com,10.240.0.0/16"


def test_every_subnet_is_one_that_proxies_do_not_see() -> None:
    assert all(Network(index, "a").subnet.subnet_of(network.CLUSTERS) for index in (1, 254))


def test_cgroup_version_1_and_2_are_distinguished(tmp_path: Path) -> None:
    assert cgroups.version(tmp_path) == 1
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    assert cgroups.version(tmp_path) == 2


def test_version_1_makes_the_group_everywhere_and_removes_it_with_all_below(tmp_path: Path) -> None:
    _hierarchy(tmp_path, "cpu")
    _hierarchy(tmp_path, "memory")
    cgroups.make("fournos-1-a", tmp_path)
    (tmp_path / "cpu/fournos-1-a/kubepods/pod1").mkdir(parents=True)
    found = cgroups.find("fournos-1-a", tmp_path)
    assert [path.name for path in found] == ["pod1", "kubepods", "fournos-1-a", "fournos-1-a"]
    cgroups.remove("fournos-1-a", tmp_path)
    assert cgroups.find("fournos-1-a", tmp_path) == []
    assert (tmp_path / "cpu").is_dir()


def test_version_2_passes_controllers_on(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids rdma\n")
    cgroups.make("fournos-1-a", tmp_path)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (tmp_path / "fournos-1-a/cgroup.subtree_control").read_text() == "+cpu +memory +pids"


# --- The groups of a cluster, on a folder that has the form of cgroup version 2 ----------------------


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
