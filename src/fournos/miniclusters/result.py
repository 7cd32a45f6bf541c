"""What became of the lead broker, from its pod."""

from __future__ import annotations

from fournos.kube.resource import Obj


def exit_code(pod: Obj, name: str) -> int | None:
    """The exit code of MiniCluster `name`, from the pod of its lead broker; None: it has not ended.

    The script writes the code of a command that ended by itself into the termination message.  Without one
    the container was killed: that is no result, another pod takes its place.
    """
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status.get("name") != name:
            continue
        ended = (status.get("state") or {}).get("terminated") or (status.get("lastState") or {}).get(
            "terminated"
        )
        message = str((ended or {}).get("message") or "")
        return int(message) if message.isdigit() else None
    return None
