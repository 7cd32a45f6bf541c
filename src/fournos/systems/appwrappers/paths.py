"""Paths into a component, such as template.spec.replicatedJobs[0].template.spec.template."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from fournos.engine.kube.resource import Obj

_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]{1,9})\]", re.ASCII)
_PATH_MAX = 1024
_STEPS_MAX = 64
"""Far more than the depth of any pod template."""


class PathError(Exception):
    """The path does not lead to a pod template. The message contains the place where it ends."""


def steps_of(path: str) -> list[str | int]:
    """Returns the steps after `template`. Raises PathError."""
    if len(path) > _PATH_MAX:
        raise PathError(f"a path has at most {_PATH_MAX} characters, this one has {len(path)}")
    if not path.startswith("template"):
        raise PathError(f"path component must start with 'template': {path!r}")
    steps: list[str | int] = []
    position = len("template")
    while match := _STEP.match(path, position):
        steps.append(match[1] if match[1] is not None else int(match[2]))
        position = match.end()
    if len(steps) > _STEPS_MAX:
        raise PathError(f"a path has at most {_STEPS_MAX} steps, this one has {len(steps)}")
    if position != len(path):
        raise PathError(f"{path!r} is not a path: it goes on with {path[position:]!r}")
    return steps


def lookup(template: Any, path: str) -> Any:
    """Returns the value at the path. Raises PathError."""
    value = template
    for step in steps_of(path):
        fits = isinstance(value, list) if isinstance(step, int) else isinstance(value, Mapping)
        if not fits or (step >= len(value) if isinstance(step, int) else step not in value):
            raise PathError(f"{path!r} does not lead anywhere: there is no {step!r}")
        value = value[step]
    return value


def pod_template(template: Obj, path: str) -> Obj:
    """Returns the pod template at the path. Raises PathError."""
    pod = lookup(template, path)
    spec = pod.get("spec") if isinstance(pod, Mapping) else None
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    if not isinstance(containers, list) or not all(isinstance(one, Mapping) for one in containers):
        raise PathError(f"{path!r} does not refer to a pod template: it has no spec.containers")
    return pod  # type: ignore[no-any-return]


def replaced(template: Obj, path: str, change: Callable[[Any], Any]) -> Any:
    """Returns a copy in which the value at the path is changed.

    Everything else is shared. Raises PathError.
    """

    def walk(node: Any, steps: list[str | int]) -> Any:
        if not steps:
            return change(node)
        step, rest = steps[0], steps[1:]
        copy: Any = list(node) if isinstance(node, list) else dict(node)
        copy[step] = walk(node[step], rest)
        return copy

    lookup(template, path)
    return walk(template, steps_of(path))
