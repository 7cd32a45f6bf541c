"""Reads the exit code of the lead broker from its pod."""

from __future__ import annotations

from fournos.engine.api.quantities import parse_count
from fournos.engine.kube.resource import Obj

_HIGHEST = 255


def exit_code(pod: Obj, name: str) -> int | None:
    """Returns the exit code of MiniCluster `name` from the pod of its lead broker; None if it has not ended.

    Our script writes the exit code to the termination message when the command has ended by itself. Without
    that message the container was killed. This is not a result, and another pod replaces it. Any other text
    in the message, which the wrapped command may write, is not a result either.
    """
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status.get("name") != name:
            continue
        ended = (status.get("state") or {}).get("terminated") or (status.get("lastState") or {}).get(
            "terminated"
        )
        return parse_count((ended or {}).get("message"), most=_HIGHEST)
    return None


def flux_error(pod: Obj, name: str) -> str:
    """Returns the error of the container that runs Flux, as reported by its script or by Kubernetes."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (status.get("state") or {}).get("terminated") or {}
        message = str(ended.get("message") or "").strip()
        if status.get("name") == name and ended.get("exitCode") and not message.isdigit():
            return message
    return ""
