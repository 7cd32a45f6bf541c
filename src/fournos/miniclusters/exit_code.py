"""What became of the lead broker, from its pod."""

from __future__ import annotations

from fournos.api.quantities import parse_count
from fournos.kube.resource import Obj

_HIGHEST = 255


def exit_code(pod: Obj, name: str) -> int | None:
    """The exit code of MiniCluster `name`, from the pod of its lead broker; None: it has not ended.

    The script writes the code of a command that ended by itself into the termination message.  Without one
    the container was killed: that is no result, another pod takes its place.  Nor is a text that no shell
    writes there, such as the wrapped command may.
    """
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status.get("name") != name:
            continue
        ended = (status.get("state") or {}).get("terminated") or (status.get("lastState") or {}).get(
            "terminated"
        )
        return parse_count((ended or {}).get("message"), most=_HIGHEST)
    return None


def complaint(pod: Obj, name: str) -> str:
    """Why the container that runs Flux could not begin, in the words of its script or of Kubernetes."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (status.get("state") or {}).get("terminated") or {}
        message = str(ended.get("message") or "").strip()
        if status.get("name") == name and ended.get("exitCode") and not message.isdigit():
            return message
    return ""
