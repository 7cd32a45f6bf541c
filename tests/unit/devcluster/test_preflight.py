"""What a machine and its kernel must have: each condition alone makes the command stop."""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devcluster import kernel, preflight
from devcluster.errors import CommandFailedError, NotSupportedError
from devcluster.kernel import (
    BRIDGE_FILTER,
    CONNTRACK,
    MODULES,
    NAMESPACES,
    VETH,
    Kernel,
    Module,
)
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


# --- What the kernel must have: loaded where it can be, named where it cannot ------------------------


class Machine:
    """A kernel in a directory, and programs that run scripts in place of `modprobe` and `unshare`."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kernel = Kernel(directory / "settings", directory / "modules")
        self.programs = directory / "bin"
        self.programs.mkdir()
        self.called = directory / "called"
        self.stream = io.StringIO()
        monkeypatch.setenv("PATH", str(self.programs))

    def has_program(self, name: str, script: str) -> None:
        program = self.programs / name
        program.write_text(f'#!/bin/sh\necho "$@" >>{self.called}\n{script}\n')
        program.chmod(0o755)

    def has_built_in(self, module: Module) -> None:
        setting = self.kernel.settings / module.settings
        setting.parent.mkdir(parents=True)
        setting.touch()

    def can_load(self, module: Module) -> None:
        self.kernel.modules.touch()
        setting = self.kernel.settings / module.settings
        self.has_program("modprobe", f"/bin/mkdir -p {setting}")

    def load(self, module: Module) -> bool:
        return kernel.load(module, Progress(self.stream), self.kernel)

    @property
    def output(self) -> str:
        return self.stream.getvalue()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_what_the_kernel_has_is_not_loaded(machine: Machine, module: Module) -> None:
    machine.has_built_in(module)
    machine.kernel.modules.touch()
    machine.has_program("modprobe", "exit 1")
    assert machine.load(module)
    assert not machine.called.exists()
    assert machine.output == ""


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_what_it_lacks_is_loaded(machine: Machine, module: Module) -> None:
    machine.can_load(module)
    assert machine.load(module)
    assert machine.called.read_text() == f"{module.name}\n"
    assert machine.output == ""


def test_a_module_that_only_helps_is_reported_and_no_failure(machine: Machine) -> None:
    machine.kernel.modules.touch()
    machine.has_program("modprobe", "echo 'Operation not permitted' >&2; exit 1")
    assert not machine.load(BRIDGE_FILTER)
    assert "Operation not permitted" in machine.output
    assert "modprobe -a br_netfilter" in machine.output


def test_a_module_that_is_needed_is_one_sentence_with_the_remedy(machine: Machine) -> None:
    machine.kernel.modules.touch()
    machine.has_program("modprobe", "echo 'Module nf_conntrack not found' >&2; exit 1")
    with pytest.raises(NotSupportedError) as raised:
        machine.load(CONNTRACK)
    assert "no nf_conntrack, and it cannot be loaded" in raised.value.message
    assert "Module nf_conntrack not found. Without it kube-proxy ends" in raised.value.message
    assert "modprobe -a nf_conntrack" in raised.value.hint


def test_a_machine_without_modprobe_is_reported_and_no_failure(machine: Machine) -> None:
    machine.kernel.modules.touch()
    assert not machine.load(BRIDGE_FILTER)
    assert "modprobe is not installed" in machine.output


def test_a_kernel_without_modules_is_not_asked_to_load_one(machine: Machine) -> None:
    machine.has_program("modprobe", "exit 0")
    assert not machine.load(BRIDGE_FILTER)
    assert not machine.called.exists()
    assert "takes no modules" in machine.output


def test_every_module_is_loaded_for_a_node_and_none_for_a_control_plane(machine: Machine) -> None:
    machine.kernel.modules.touch()
    machine.has_program("unshare", "exit 0")
    machine.has_program("modprobe", f"/bin/mkdir -p {machine.kernel.settings}/net/netfilter/nf_conntrack_max")
    kernel.prepare(Progress(machine.stream), node=False, kernel=machine.kernel)
    assert VETH.trial in machine.called.read_text()
    assert "nf_conntrack" not in machine.called.read_text()
    kernel.prepare(Progress(machine.stream), node=True, kernel=machine.kernel)
    assert {module.name for module in MODULES} <= set(machine.called.read_text().splitlines())
    assert "br_netfilter" in machine.output


def test_what_the_kernel_cannot_do_is_named_with_its_modules(machine: Machine) -> None:
    machine.has_program("unshare", 'case "$*" in *overlay*) exit 1;; esac')
    with pytest.raises(NotSupportedError, match="lacks images as layers: of the modules overlay") as raised:
        kernel.prepare(Progress(machine.stream), node=True, kernel=machine.kernel)
    assert "modprobe -a overlay" in raised.value.hint


def test_a_sandbox_that_refuses_namespaces_is_not_taken_for_a_small_kernel(machine: Machine) -> None:
    machine.has_program("unshare", "exit 1")
    with pytest.raises(NotSupportedError, match="refuses network and mount namespaces"):
        kernel.prepare(Progress(machine.stream), node=True, kernel=machine.kernel)


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_trials_leave_nothing_and_a_trial_can_fail() -> None:
    assert kernel.can(NAMESPACES)
    assert kernel.can(VETH)
    assert not kernel.can(kernel.Ability("x", (), "ip link add name trial0 type no-such-type"))
    assert not Path("/sys/class/net/trial0").exists()
    assert "trial" not in Path("/proc/self/mounts").read_text()


def test_a_setting_is_written_only_when_it_differs(tmp_path: Path) -> None:
    # `switch_on` names settings below /proc/sys; this path leads out of it again.
    for before in ("0", "1"):
        setting = tmp_path / before
        setting.write_text(f"{before}\n")
        os.utime(setting, (0, 0))
        kernel.switch_on([], f"../..{setting}")
        assert setting.read_text() == "1\n"
        assert (setting.stat().st_mtime == 0) == (before == "1")


def test_a_setting_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandFailedError):
        kernel.switch_on([], f"../..{tmp_path}/absent/setting")
