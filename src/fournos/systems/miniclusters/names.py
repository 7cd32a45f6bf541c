"""Names, labels and fixed values of a MiniCluster (its page and its published manifests)."""

from __future__ import annotations

from typing import Final

MANAGED_BY_US: Final = (None, "", "flux-framework.org/flux-operator")

FINALIZER: Final = "flux-framework.org/finalizer"
"""Set on queued MiniClusters only. The Workload needs its MiniCluster until none of its pods runs."""

NAME_LABEL: Final = "app.kubernetes.io/name"
"""On every pod: the MiniCluster's name. Affinity and the sidecars' Services select by it."""
APP_LABEL: Final = "app"
APP: Final = "flux-operator"
NAMESPACE_LABEL: Final = "namespace"
SCALE_LABEL: Final = "hpa-selector"
"""On the pods of the Indexed Job: the MiniCluster's name. It is the selector of the scale subresource."""
INDEX_LABEL: Final = "job-index"
"""On the pods of the Indexed Job: their index, as the page promises. It is written after their creation."""
COMPLETION_INDEX_LABEL: Final = "batch.kubernetes.io/job-completion-index"
"""The same index, set by the Job controller."""
IGNORED_FAILURES_ANNOTATION: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
"""On the pods of the Indexed Job, set by the Job controller: the ignored failures of this index."""
HEADLESS_LABEL: Final = "flux-framework.org/headless-service"
"""On every pod that a headless Service makes reachable, and on that Service: the Service's name."""
MINICLUSTER_LABEL: Final = "flux-framework.org/minicluster"
"""On every object that is created for one MiniCluster: its name."""

MAIN_POD_SET: Final = "main"
SERVICES_POD_SET: Final = "services"

ENTRYPOINT_PATH: Final = "/flux_operator"
"""The directory in which all containers find the scripts."""
CURVE_PATH: Final = "/flux_operator_curve"
"""The directory in which the container that runs Flux finds the certificate."""
CURVE_KEY: Final = "curve.cert"
HOME_PATH: Final = "/home/flux-operator"
SOFTWARE_PATH: Final = "/opt/software"
MUNGE_PATH: Final = "/etc/munge"

STOPPED: Final = 117
"""The exit code of the container that runs Flux after it was requested to stop.

This is not the end of a command. The Job creates another pod and counts no failure.
"""
QUORUM_KEY: Final = "quorum.txt"
"""Key of the entrypoint ConfigMap: the number of brokers that the command waits for; empty means all."""

BACKOFF_LIMIT: Final = 100
"""How many killed pods are replaced if the user sets no limit."""


def entrypoint(name: str) -> str:
    """Returns the name of the entrypoint ConfigMap."""
    return f"{name}-entrypoint"


def curve(name: str) -> str:
    """Returns the name of the Secret with the certificate."""
    return f"{name}-curve"


def services_pod(name: str) -> str:
    """Returns the name of the services pod."""
    return f"{name}-services"


def lead(name: str) -> str:
    """Returns the host name of the lead broker's pod."""
    return f"{name}-0"


def selector(name: str) -> str:
    """Returns the label selector for `status.selector`."""
    return f"{SCALE_LABEL}={name}"


def labels(name: str) -> dict[str, str]:
    """Returns the labels of every object that is created for one MiniCluster."""
    return {NAME_LABEL: name, MINICLUSTER_LABEL: name}
