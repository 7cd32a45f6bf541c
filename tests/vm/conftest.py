"""Machines that live as long as the tests of a module; their logs stay, in build/vm."""

from __future__ import annotations

import datetime
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from dev.image import dependencies
from devcluster import native, system
from devcluster.paths import cache_root
from devcluster.progress import Progress
from tests.e2e.bare.machine import ROOT, archive
from tests.vm.machine import DEBIAN, PLAIN, PYTHON_PACKAGES, STRICT, Habits, VirtualMachine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the files of a machine are made by root")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(needs_root)


@pytest.fixture(scope="module")
def plain() -> Iterator[VirtualMachine]:
    with _started("plain", PLAIN, DEBIAN, {}) as machine:
        yield machine


@pytest.fixture(scope="module")
def strict() -> Iterator[VirtualMachine]:
    """It has all programs and packages, so that what takes most of the time is not repeated there."""
    needed = {*system.BASE_PACKAGES.values(), *system.NODE_PACKAGES.values()} - {*DEBIAN}
    packages = {dependencies(Progress()): PYTHON_PACKAGES}
    with _started("strict", STRICT, (*DEBIAN, *sorted(needed)), packages) as machine:
        yield machine


@contextmanager
def _started(
    name: str, habits: Habits, debian: Sequence[str], handed_in: Mapping[Path, Path]
) -> Iterator[VirtualMachine]:
    progress, logs = Progress(), ROOT / "build/vm"
    system.ensure_packages([system.IMAGE_PACKAGES, system.EMULATOR_PACKAGES], progress)
    native.build(progress)
    files = archive(progress, datetime.date.today(), debian)
    logs.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=".vm-", dir=cache_root()))
    with (logs / f"{name}.log").open("w") as log:
        machine = VirtualMachine(directory, habits, log)
        try:
            with progress.step(f"Booting a Debian; its log: {logs / name}.log", usual="1 min"):
                machine.install(files, handed_in)
                machine.start()
            yield machine
        finally:
            machine.stop()
            shutil.rmtree(directory)
