"""The kernel's module for bridged packets: loaded where it must be, and no failure where it cannot be."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from devcluster import kernel, system
from devcluster.errors import CommandFailedError
from devcluster.kernel import Kernel
from devcluster.progress import Progress


class Machine:
    """A kernel in a directory, and a `modprobe` that runs `script`."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bridge, self.modules = directory / "bridge", directory / "modules"
        self.programs = directory / "bin"
        self.programs.mkdir()
        self.called = directory / "called"
        self.stream = io.StringIO()
        monkeypatch.setenv("PATH", str(self.programs))

    def has_modprobe(self, script: str) -> None:
        program = self.programs / "modprobe"
        program.write_text(f'#!/bin/sh\necho "$@" >{self.called}\n{script}\n')
        program.chmod(0o755)

    def load(self) -> bool:
        return kernel.load_bridge_filter(Progress(self.stream), Kernel(self.bridge, self.modules))

    @property
    def output(self) -> str:
        return self.stream.getvalue()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_what_the_kernel_has_is_not_loaded(machine: Machine) -> None:
    machine.bridge.mkdir()
    machine.modules.touch()
    machine.has_modprobe("exit 1")
    assert machine.load()
    assert not machine.called.exists()
    assert machine.output == ""


def test_what_it_lacks_is_loaded(machine: Machine) -> None:
    machine.modules.touch()
    machine.has_modprobe(f"/bin/mkdir {machine.bridge}")
    assert machine.load()
    assert machine.called.read_text() == "br_netfilter\n"
    assert machine.output == ""


def test_a_machine_that_refuses_is_reported_and_no_failure(machine: Machine) -> None:
    machine.modules.touch()
    machine.has_modprobe("echo 'Operation not permitted' >&2; exit 1")
    assert not machine.load()
    assert "Operation not permitted" in machine.output
    assert "modprobe br_netfilter" in machine.output


def test_a_machine_without_modprobe_is_reported_and_no_failure(machine: Machine) -> None:
    machine.modules.touch()
    assert not machine.load()
    assert "modprobe is not installed" in machine.output


def test_a_kernel_without_modules_is_not_asked_to_load_one(machine: Machine) -> None:
    machine.has_modprobe("exit 0")
    assert not machine.load()
    assert not machine.called.exists()
    assert "takes no modules" in machine.output


def test_modprobe_is_among_the_packages_of_a_node() -> None:
    assert system.NODE_PACKAGES["modprobe"] == "kmod"


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
