"""Which subnet a new cluster takes."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

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
