"""Writes the reference page of the client library from its sources: signatures and docstrings.

python -m dev.client_reference            write docs/reference/client.md
python -m dev.client_reference --check    exit 1 and show a diff if the file differs
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import griffe

from dev.generated import write_or_check

PAGE: Final = "docs/reference/client.md"
_PACKAGE: Final = "fournos.client"
_INTRODUCTION: Final = """\
# The client library

<!-- Generated from src/fournos/client by `python -m dev.client_reference`. Do not edit. -->

By example: [The Python client](../client.md). `from fournos.client import …` has all names of this page.

`Client` and its handles have the methods of `AsyncClient` and of the asynchronous handles, with the same
parameters: they block where those are awaited, and iterate where those iterate asynchronously.
"""
_CLASSES: Final = (
    ("AsyncClient", "Client"),
    ("AsyncJob", "Job"),
    ("AsyncCluster", "Cluster"),
    ("AsyncQueue", "Queue"),
    ("AsyncSchedule", "Schedule"),
    ("AsyncAppWrapper", "AppWrapper"),
    ("AsyncMiniCluster", "MiniCluster"),
    ("AsyncDispatch", "Dispatch"),
    ("AsyncObject", "Object"),
    ("Handles", ""),
    ("ObjectEvent", ""),
    ("JobEvent", ""),
    ("LogLine", ""),
    ("Failure", ""),
)
"""Each class, and the name of its synchronous face."""
_VALUES: Final = (
    ("`explain()`", "fournos.insight.explanation.Explanation"),
    ("`tasks()`", "fournos.insight.tasks.Task"),
    ("`components()`", "fournos.insight.appwrapper_components.WrappedComponent"),
    ("`queue()` and `waiting()`", "fournos.insight.queues.QueueEntry"),
    ("`stop()`", "fournos.insight.stopping.StopVerdict"),
    ("`timeline`", "fournos.insight.timeline.TimelineEntry"),
    ("`repeats`", "fournos.client.repeat.Repeat"),
)
"""What returns a value, and the class of the value."""


def page(sources: Path) -> str:
    """Returns Markdown: every class with its constructor, properties and methods, and the errors."""
    root: Any = griffe.load("fournos", search_paths=[str(sources)], resolve_aliases=True)
    package = root["client"]
    parts = [_INTRODUCTION]
    for name, face in _CLASSES:
        title = f"{face} and {name}" if face else name
        parts += [f"## {title}\n", *_class(_real(package[name]))]
    parts.append("## Values\n")
    for where, path in _VALUES:
        found = _real(root[path.removeprefix("fournos.")])
        parts += [f"### {found.name}\n", f"Of {where}. {_prose(found)}\n", *_fields(found)]
    errors = [
        (f"`{name}`", _bases(_real(member)), _first(_real(member)))
        for name, member in sorted(package.members.items())
        if member.is_alias and member.target_path.startswith(f"{_PACKAGE}.errors.")
    ]
    parts += ["## Errors\n", "Each has `message`, and `fix`: what to do.\n"]
    parts.append(_table(("Error", "Is a", "Meaning"), errors))
    return "\n".join(parts)


def _real(member: Any) -> Any:
    return member.final_target if member.is_alias else member


def _class(definition: Any) -> Iterator[str]:
    yield f"{_prose(definition)}\n"
    members = [(name, _real(member)) for name, member in definition.all_members.items()]
    constructor = next((member for name, member in members if name == "__init__"), None)
    if constructor is not None and definition.name == "AsyncClient":
        yield f"```python\n{_signature(definition.name.removeprefix('Async'), constructor)}\n```\n"
    public = [(name, member) for name, member in members if not name.startswith("_")]
    yield from _fields(definition)
    for name, member in public:
        if member.is_function:
            yield f"### {definition.name.removeprefix('Async')}.{name}\n"
            yield f"```python\n{_signature(name, member)}\n```\n"
            yield f"{_prose(member)}\n"


def _fields(found: Any) -> Iterator[str]:
    """A table of the properties and the documented attributes."""
    members = [(name, _real(member)) for name, member in found.all_members.items()]
    rows = [
        (f"`{name}`", f"`{member.annotation}`" if member.annotation else "", _prose(member))
        for name, member in members
        if not name.startswith("_") and member.is_attribute and (member.docstring or _typed(member))
    ]
    if rows:
        yield _table(("Attribute", "Type", "Meaning"), rows)


def _typed(member: Any) -> bool:
    """True for a field of a dataclass or a property."""
    return member.annotation is not None and "class-attribute" not in member.labels - {"property"}


def _signature(name: str, function: Any) -> str:
    parameters, marked = [], False
    for parameter in function.parameters:
        if parameter.name == "self":
            continue
        kind = parameter.kind.value
        if kind == "keyword-only" and not marked:
            parameters.append("*")
        marked = marked or kind in ("keyword-only", "variadic positional")
        star = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        text = f"{star}{parameter.name}" + (f": {parameter.annotation}" if parameter.annotation else "")
        variadic = kind.startswith("variadic")
        parameters.append(text if parameter.default is None or variadic else f"{text} = {parameter.default}")
    returns = f" -> {function.returns}" if function.returns and name[0].islower() else ""
    line = f"{name}({', '.join(parameters)}){returns}"
    if len(line) <= 100:
        return line
    return f"{name}(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + f"){returns}"


def _prose(member: Any) -> str:
    """The docstring as Markdown, with one line a paragraph."""
    text = member.docstring.value if member.docstring else ""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    return "\n\n".join(paragraphs).replace("<", "&lt;")


def _first(member: Any) -> str:
    return _prose(member).split("\n\n")[0]


def _bases(found: Any) -> str:
    return ", ".join(f"`{base}`" for base in found.bases)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    cells = [[cell.replace("|", "\\|").replace("\n\n", " ") for cell in line] for line in lines]
    return "".join("| " + " | ".join(line) + " |\n" for line in cells)


def main(arguments: Sequence[str] | None = None) -> int:
    text = page(Path(__file__).resolve().parents[1] / "src")
    return write_or_check("dev.client_reference", (__doc__ or "").split("\n")[0], PAGE, text, arguments)


if __name__ == "__main__":
    sys.exit(main())
