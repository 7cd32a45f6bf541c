"""One bare machine for all tests here."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import imagebuild, native
from devcluster.progress import Progress
from tests.e2e.bare.machine import Machine, archive

TEARDOWN = ("make", "--silent", "teardown")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and the native provider need root")
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.setup)
            item.add_marker(needs_root)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """As it was installed; what the tests do to it stays until the last of them has ended."""
    progress = Progress()
    # What takes minutes the first time is not made here, but once for every checkout.
    native.build(progress)
    imagebuild.python_base(progress)
    made = Machine(tmp_path_factory.mktemp("bare"), archive(progress, datetime.date.today()))
    try:
        made.start()
        yield made
        made.run(*TEARDOWN, limit=240)
    finally:
        made.stop()
