"""JSON merge patches (RFC 7396) and JSON patches (RFC 6902), computed from objects.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeGuard

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_LISTS: Final = frozenset({list, tuple})


def _is_object(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """True for a JSON object.  The types of most values are known: a check for a Mapping is slow."""
    kind = type(value)
    return kind is dict or (not (kind in _SCALARS or kind in _LISTS) and isinstance(value, Mapping))


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the merge patch that turns `old` into `new`; None in `new` means an absent key."""
    patch: dict[str, Any] = {key: None for key in old if old[key] is not None and new.get(key) is None}
    for key, value in new.items():
        before = old.get(key)
        if value is None or value is before:  # most parts of a status are the cached objects themselves
            continue
        if _is_object(value) and _is_object(before):
            changes = merge_patch(before, value)
            if changes:
                patch[key] = changes
        elif value != before and (wanted := without_null(value)) != without_null(before):
            patch[key] = wanted
    return patch


def json_patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the operations of a JSON patch with the effect of the merge patch; [] if nothing changes."""
    return list(_operations(target, patch, ""))


def _operations(target: Mapping[str, Any], patch: Mapping[str, Any], at: str) -> Iterator[dict[str, Any]]:
    for key, change in patch.items():
        path = f"{at}/{key.replace('~', '~0').replace('/', '~1')}"
        present = target.get(key)
        if change is None:
            if key in target:
                yield {"op": "remove", "path": path}
        elif _is_object(change) and _is_object(present):
            yield from _operations(present, change, path)
        else:
            value = without_null(change, in_lists=False)
            if key not in target or present != value:
                yield {"op": "replace" if key in target else "add", "path": path, "value": value}


def without_null(value: Any, *, in_lists: bool = True) -> Any:
    """Returns a copy without the keys whose value is None.

    `in_lists=False` keeps lists unchanged; this is how a merge patch applies to an absent value.
    """
    if _is_object(value):
        return {
            key: inner if type(inner) in _SCALARS else without_null(inner, in_lists=in_lists)
            for key, inner in value.items()
            if inner is not None
        }
    if in_lists and isinstance(value, list | tuple):
        return [without_null(inner) for inner in value]
    return value


# --- dotted paths, such as spec.taskRunTemplate.podTemplate ------------------------------------------


def read(obj: Mapping[str, Any], path: str) -> Any:
    """Returns the value at the path; None if it is absent."""
    value: Any = obj
    for name in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def nested(path: str, value: Any) -> dict[str, Any]:
    """Returns the object with only this value at the path, as a merge patch that writes it."""
    patch: Any = value
    for name in reversed(path.split(".")):
        patch = {name: patch}
    body: dict[str, Any] = patch
    return body


def joined(*bodies: Mapping[str, Any]) -> dict[str, Any]:
    """Returns one merge patch from several; of two values that are not both objects the later one wins."""
    result: dict[str, Any] = {}
    for body in bodies:
        for key, value in body.items():
            before = result.get(key)
            both = isinstance(before, Mapping) and isinstance(value, Mapping)
            result[key] = joined(before, value) if both else value  # type: ignore[arg-type]
    return result


def only(obj: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    """Returns the parts of the object at these paths."""
    found = ((path, read(obj, path)) for path in paths)
    return joined(*(nested(path, value) for path, value in found if value is not None))
