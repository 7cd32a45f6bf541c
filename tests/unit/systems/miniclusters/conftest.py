"""What tests of the rendered scripts share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.systems.miniclusters.stage import Sandbox


@pytest.fixture
def stage(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path / "stage")
