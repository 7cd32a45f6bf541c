from __future__ import annotations

import pytest

from tests.unit.history.logs.stage import Stage


@pytest.fixture
def here() -> Stage:
    return Stage()
