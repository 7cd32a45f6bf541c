"""Waits until a Deployment has rolled out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from dev.endings import evidence
from devcluster import DevclusterError
from devcluster.kubectl import rolled_out, wait_until

LIMIT: Final = 240
"""Seconds for the pods of a Deployment, as for those of Kueue and Tekton."""
_LINES: Final = 20
"""Lines of the log of each pod that an error shows."""


def await_rollout(kubectl: Callable[..., str], name: str, *, limit: float) -> None:
    """Waits until the Deployment has only pods of its current template, and all of them are available.

    `kubectl` takes the words of a command in the Deployment's namespace and returns its output.  Raises
    DevclusterError after `limit` seconds, with the pods and the end of their logs.

    Not `kubectl rollout status`: after a broken template the condition ProgressDeadlineExceeded stays until
    the controller sees progress of the next one, and that command takes it for a failure of the next one.
    """
    words = ("get", "deployment", name, "-o", "json")
    with evidence(lambda: pods_of(kubectl, name)):
        wait_until(
            f"deployment/{name} rolled out",
            lambda: rolled_out(json.loads(kubectl(*words))),
            limit=limit,
            every=0.5,
            evidence=lambda: json.dumps(json.loads(kubectl(*words)).get("status")),
        )


def pods_of(kubectl: Callable[..., str], name: str) -> str:
    """Returns the pods of a Deployment, the last lines of their logs and the namespace's warnings, as far as
    they can be read.
    """
    try:
        deployment = json.loads(kubectl("get", "deployment", name, "-o", "json"))
    except DevclusterError as error:
        return error.message
    labels = deployment["spec"]["selector"]["matchLabels"]
    selector = f"--selector={','.join(f'{label}={value}' for label, value in labels.items())}"
    return "\n".join(
        _read(kubectl, *words)
        for words in (
            ("get", "pods", selector),
            ("logs", selector, f"--tail={_LINES}", "--prefix"),
            ("get", "events", "--field-selector=type=Warning", "--sort-by=.lastTimestamp"),
        )
    )


def _read(kubectl: Callable[..., str], *words: str) -> str:
    try:
        return kubectl(*words).rstrip()
    except DevclusterError as error:
        return error.message
