"""What tests of the rendered scripts share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.miniclusters.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "stage")
