"""Reads from a pod the status of the container that runs Flux, and of the lead broker's the exit code."""

from __future__ import annotations

from typing import Any

from fournos.engine.api.values import parse_count
from fournos.engine.kube.resource import Obj

_HIGHEST = 255


def runner(pod: Obj, name: str) -> dict[str, Any]:
    """Returns the status of the container that runs Flux; empty if there is none."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status.get("name") == name:
            return dict(status)
    return {}


def last_end(pod: Obj, name: str) -> dict[str, Any]:
    """Returns how that container ended, or its run before the current one; empty if neither has ended."""
    status = runner(pod, name)
    for state in (status.get("state") or {}, status.get("lastState") or {}):
        if state.get("terminated"):
            return dict(state["terminated"])
    return {}


def exit_code(pod: Obj, name: str) -> int | None:
    """Returns the exit code of MiniCluster `name` from the pod of its lead broker; None if it has not ended.

    Our script writes the exit code to the termination message when the command has ended by itself. Without
    that message the container was killed. This is not a result, and another pod replaces it. Any other text
    in the message, which the wrapped command may write, is not a result either.
    """
    return parse_count(last_end(pod, name).get("message"), most=_HIGHEST)


def flux_error(pod: Obj, name: str) -> str:
    """Returns the error of the container that runs Flux, as reported by its script or by Kubernetes."""
    ended = (runner(pod, name).get("state") or {}).get("terminated") or {}
    message = str(ended.get("message") or "").strip()
    return message if ended.get("exitCode") and not message.isdigit() else ""
