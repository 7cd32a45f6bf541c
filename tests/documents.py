"""Executes the Python of documents: the sections of a page, and the cells of a notebook.

Cells are executed here rather than by a kernel: what matters to the client is the running event loop, and
nbclient with ipykernel brings forty packages for it.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections(page: Path) -> dict[str, list[str]]:
    """Heading of the second level → its Python blocks, in the order of the page; "" is what is before."""
    parts = re.split(r"^## (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    texts = zip(["", *parts[1::2]], parts[::2], strict=True)
    return {heading: found for heading, text in texts if (found := _BLOCK.findall(text))}


def cells(notebook: Path) -> list[str]:
    """The code cells of a notebook."""
    document = json.loads(notebook.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]


def execute(sources: list[str], where: Path) -> list[Any]:
    """Runs cells as a kernel does: one after the other on the thread of a running event loop.

    `await` at the top level works, and the value of a last expression is what the notebook would show.
    """
    names: dict[str, Any] = {"__name__": "__main__"}

    async def run() -> list[Any]:
        return [await _cell(source, names, where) for source in sources]

    return asyncio.run(run())


async def _cell(source: str, names: dict[str, Any], where: Path) -> Any:
    tree = ast.parse(source, str(where))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    await _run(tree, "exec", names, where)
    return await _run(ast.Expression(last.value), "eval", names, where) if last else None


async def _run(tree: ast.AST, mode: str, names: dict[str, Any], where: Path) -> Any:
    code = compile(tree, str(where), mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)  # type: ignore[call-overload]
    value = eval(code, names)
    return await value if inspect.iscoroutine(value) else value
