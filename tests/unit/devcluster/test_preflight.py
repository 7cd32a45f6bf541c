"""What a machine must have: each condition alone makes the command stop, with its sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devcluster import preflight
from devcluster.errors import NotSupportedError
from devcluster.preflight import GIB, Facts
from devcluster.progress import Progress
from devcluster.versions import chosen

TRIED = Facts(
    system="Linux",
    release="6.1.0-38-cloud-amd64",
    root=True,
    architecture="x86_64",
    distribution="debian",
    version="12",
    memory=6 * GIB - 200_000_000,
    disk=14 * GIB,
    built=False,
    cgroup_version=2,
    controllers=frozenset({"cpu", "cpuset", "memory", "pids", "io"}),
    missing_packages=("containerd", "runc"),
)


def test_a_machine_as_the_tests_have_had_it_is_taken() -> None:
    assert {row.verdict for row in preflight.decide(TRIED)} == {"ok"}


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"system": "Darwin"}, "needed Linux, here Darwin"),
        ({"root": False}, "needed root, here not root"),
        ({"memory": 4 * GIB}, "needed 6 GiB of memory, here 4 GiB"),
        ({"disk": 11 * GIB}, "needed 14 GiB of free disk, to build the programs, here 11 GiB"),
        ({"disk": 2 * GIB, "built": True}, "needed 3 GiB of free disk, here 2 GiB"),
        ({"controllers": frozenset({"cpu", "cpuset", "pids"})}, "here version 2 without memory"),
        ({"apt": False}, "needed Debian's packages, here missing: containerd runc"),
    ],
)
def test_what_is_missing_is_refused_whatever_was_asked(
    change: dict[str, Any], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "facts", lambda versions: replace(TRIED, **change))
    with pytest.raises(NotSupportedError, match="misses what is needed") as raised:
        preflight.require(Progress(quiet=True), chosen(), untried=True)
    assert shown in raised.value.message
    assert "--provider" in raised.value.hint


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"architecture": "aarch64"}, "needed x86_64, here aarch64"),
        ({"distribution": "ubuntu", "version": "24.04"}, "here ubuntu 24.04"),
        ({"version": "11"}, "needed debian 12 or debian 13, here debian 11"),
        ({"selinux": True}, "SELinux"),
        ({"firewalld": True}, "firewalld"),
    ],
)
def test_what_was_never_tried_is_refused_until_it_is_asked_for(
    change: dict[str, Any], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "facts", lambda versions: replace(TRIED, **change))
    with pytest.raises(NotSupportedError, match="never tried") as raised:
        preflight.require(Progress(quiet=True), chosen())
    assert shown in raised.value.message
    assert "DEV_ARGS=--untried" in raised.value.hint
    preflight.require(Progress(quiet=True), chosen(), untried=True)


def test_packages_that_are_there_need_no_apt_and_a_built_cluster_less_disk() -> None:
    facts = replace(TRIED, apt=False, missing_packages=(), built=True, disk=3 * GIB)
    assert {row.verdict for row in preflight.decide(facts)} == {"ok"}


def test_this_machine_is_measured() -> None:
    facts = preflight.facts(chosen())
    assert facts.memory > GIB / 2
    assert facts.disk > 0
    assert facts.system
    assert preflight.table(preflight.decide(facts)).count("\n") >= 1


def test_a_process_whose_name_is_no_text_is_no_failure() -> None:
    """The kernel cuts names at 15 bytes, within a character if need be."""
    name = Path("/proc/self/comm")
    before = name.read_bytes()
    name.write_bytes(b"a" * 14 + "ö".encode())
    try:
        assert name.read_bytes() == b"a" * 14 + b"\xc3\n"
        assert not preflight.facts(chosen()).firewalld
    finally:
        name.write_bytes(before)
