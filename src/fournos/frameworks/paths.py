"""Dotted paths into objects ("spec.taskRunTemplate.podTemplate"): read, and written as merge patches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator

_PATH: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_-]*)*")


def checked_path(text: str) -> str:
    """The path itself.  Raises ValueError."""
    if not _PATH.fullmatch(text):
        raise ValueError(f"{text!r} is no path: write field names with dots between them, as spec.suspend")
    return text


Path = Annotated[str, AfterValidator(checked_path)]


def read(obj: Mapping[str, Any], path: str) -> Any:
    """None where there is nothing."""
    found: Any = obj
    for name in path.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found


def nested(path: str, value: Any) -> dict[str, Any]:
    """The object that has this value at the path, and nothing else: a merge patch that writes it."""
    found: Any = value
    for name in reversed(path.split(".")):
        found = {name: found}
    body: dict[str, Any] = found
    return body


def joined(*bodies: Mapping[str, Any]) -> dict[str, Any]:
    """One body of several; a later one wins where both have a value that is no object."""
    result: dict[str, Any] = {}
    for body in bodies:
        for key, value in body.items():
            before = result.get(key)
            both = isinstance(before, Mapping) and isinstance(value, Mapping)
            result[key] = joined(before, value) if both else value  # type: ignore[arg-type]
    return result


def only(obj: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """What the object has at these paths."""
    found = ((path, read(obj, path)) for path in paths)
    return joined(*(nested(path, value) for path, value in found if value is not None))
