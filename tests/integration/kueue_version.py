"""Marks of tests that hold for some versions of Kueue only; the chosen set of versions decides."""

from __future__ import annotations

from typing import Final

import pytest

from devcluster.versions import chosen

_KUEUE: Final = tuple(int(part) for part in chosen().kueue.removeprefix("v").split(".")[:2])

SINCE_019: Final = pytest.mark.skipif(_KUEUE < (0, 19), reason="this Kueue is older than 0.19")
