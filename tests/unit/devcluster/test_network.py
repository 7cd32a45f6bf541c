"""Which subnet a new cluster takes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from devcluster import cgroups, network
from devcluster.errors import DevclusterError
from devcluster.network import Network, choose_index


def test_the_first_subnet_is_taken_on_an_empty_machine() -> None:
    assert choose_index(recorded=[], in_use=[]) == 1


def test_a_recorded_cluster_keeps_its_subnet_even_while_it_has_no_interface() -> None:
    assert choose_index(recorded={1, 2, 4}, in_use=[]) == 3


def test_an_address_or_route_of_the_machine_is_avoided() -> None:
    in_use = [IPv4Network("10.240.1.0/24"), IPv4Network("10.240.2.128/25"), IPv4Network("192.168.0.0/16")]
    assert choose_index(recorded=[], in_use=in_use) == 3


def test_a_wide_route_over_all_subnets_is_reported() -> None:
    with pytest.raises(DevclusterError, match="No free subnet"):
        choose_index(recorded=[], in_use=[IPv4Network("10.0.0.0/8")])


def test_254_clusters_are_the_limit() -> None:
    assert choose_index(recorded=range(1, 254), in_use=[]) == 254
    with pytest.raises(DevclusterError, match="list"):
        choose_index(recorded=range(1, 255), in_use=[])


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
