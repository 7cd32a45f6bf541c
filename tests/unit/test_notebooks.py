"""Notebooks and the client's pages: without outputs, executable, complete."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tests.documents import cells, execute, sections

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


def test_cells_run_with_a_running_loop_and_show_their_last_expression() -> None:
    sources = [
        "import asyncio\nvalue = 1\nvalue + 1",
        "await asyncio.sleep(0)\nvalue = await asyncio.sleep(0, 3)",
        "asyncio.get_running_loop().is_running(), value",
        "",
    ]
    assert execute(sources, Path("x")) == [2, None, (True, 3), None]
    with pytest.raises(ZeroDivisionError):
        execute(["1 / 0"], Path("x"))


def test_every_section_of_the_pages_is_found() -> None:
    assert {"", "A matrix", "With an event loop"} <= sections(ROOT / "docs" / "client.md").keys()
    kinds = sections(ROOT / "docs" / "client-kinds.md")
    assert set(kinds) == {"Schedules", "AppWrappers", "MiniClusters", "Any other kind"}
