"""Names, labels and fixed words of a MiniCluster (its page and its published manifests)."""

from __future__ import annotations

from typing import Final

MANAGED_BY_US: Final = frozenset({None, "", "flux-framework.org/flux-operator"})

FINALIZER: Final = "flux-framework.org/finalizer"
"""Only on a MiniCluster that is queued: its Workload must find it until nothing of it runs."""

NAME_LABEL: Final = "app.kubernetes.io/name"
"""On every pod: the MiniCluster's name; affinity and sidecar Services select by it."""
APP_LABEL: Final = "app"
APP: Final = "flux-operator"
NAMESPACE_LABEL: Final = "namespace"
SCALE_LABEL: Final = "hpa-selector"
"""On the pods of the Indexed Job: the MiniCluster's name; the selector of the scale subresource."""
INDEX_LABEL: Final = "job-index"
"""On the pods of the Indexed Job: their index, as the page promises it; written after they are made."""
COMPLETION_INDEX_LABEL: Final = "batch.kubernetes.io/job-completion-index"
"""The same by the Job controller."""
HEADLESS_LABEL: Final = "flux-framework.org/headless-service"
"""On every pod that a headless Service makes reachable, and on that Service: the Service's name."""
MINICLUSTER_LABEL: Final = "flux-framework.org/minicluster"
"""On everything that is made for one MiniCluster: its name."""

MAIN_POD_SET: Final = "main"
SERVICES_POD_SET: Final = "services"

ENTRYPOINT_PATH: Final = "/flux_operator"
"""Where all containers find the scripts."""
CURVE_PATH: Final = "/flux_operator_curve"
"""Where the container that runs Flux finds the certificate."""
CURVE_KEY: Final = "curve.cert"
HOME_PATH: Final = "/home/flux-operator"
SOFTWARE_PATH: Final = "/opt/software"
MUNGE_PATH: Final = "/etc/munge"

STOPPED: Final = 117
"""Exit code of the container that runs Flux where it was told to stop: not the end of a command, so the Job
makes another pod and counts no failure."""
QUORUM_KEY: Final = "quorum.txt"
"""Key of the entrypoint ConfigMap: how many brokers the command waits for; empty: all."""

BACKOFF_LIMIT: Final = 100
"""How many pods that were killed are replaced, where the user says nothing."""


def entrypoint(name: str) -> str:
    return f"{name}-entrypoint"


def curve(name: str) -> str:
    return f"{name}-curve"


def services_pod(name: str) -> str:
    return f"{name}-services"


def lead(name: str) -> str:
    """Host name of the lead broker's pod."""
    return f"{name}-0"


def selector(name: str) -> str:
    """status.selector."""
    return f"{SCALE_LABEL}={name}"


def labels(name: str) -> dict[str, str]:
    """Of everything that is made for one MiniCluster."""
    return {NAME_LABEL: name, MINICLUSTER_LABEL: name}
