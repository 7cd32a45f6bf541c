"""Notebooks and the client's pages: without outputs, executable, complete."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tests.documents import cells

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(ROOT.glob("docs/**/*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda found: found.name)
def test_outputs_are_cleared(notebook: Path) -> None:
    document = json.loads(notebook.read_text(encoding="utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
    for cell in document["cells"]:
        assert cell["cell_type"] in ("code", "markdown")
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    for source in cells(notebook):
        compile(source, str(notebook), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
