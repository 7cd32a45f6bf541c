"""Waits until a Deployment has rolled out."""

from __future__ import annotations

import json
from collections.abc import Callable

from devcluster.kubectl import rolled_out, wait_until


def await_rollout(kubectl: Callable[..., str], name: str, *, limit: float) -> None:
    """Waits until the Deployment has only pods of its current template, and all of them are available.

    `kubectl` takes the words of a command in the Deployment's namespace and returns its output.  Raises
    DevclusterError after `limit` seconds.

    Not `kubectl rollout status`: after a broken template the condition ProgressDeadlineExceeded stays until
    the controller sees progress of the next one, and that command takes it for a failure of the next one.
    """
    words = ("get", "deployment", name, "-o", "json")
    wait_until(
        f"deployment/{name} rolled out",
        lambda: rolled_out(json.loads(kubectl(*words))),
        limit=limit,
        every=0.5,
        evidence=lambda: json.dumps(json.loads(kubectl(*words)).get("status")),
    )
