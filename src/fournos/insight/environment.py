"""The variables of the environment that commands and the client library share."""

from __future__ import annotations

import os
from typing import Final

from fournos.engine.kube.resource import NAMESPACE as NAMESPACE
from fournos.insight.source import DEFAULT_QUEUE

KUEUE_NAMESPACE: Final = "kueue-system"


def owner() -> str:
    """The owner of the user's jobs; "" if it is not set."""
    return os.environ.get("FOURNOS_OWNER", "")


def local_queue() -> str:
    """The LocalQueue of jobs that have no Workload yet."""
    return os.environ.get("FOURNOS_KUEUE_LOCAL_QUEUE_NAME", DEFAULT_QUEUE)


def jobs_namespace() -> str:
    """The namespace of jobs; "" if it is not set."""
    return os.environ.get("FOURNOS_NAMESPACE", "")


def clusters_namespace() -> str:
    """The namespace of the FournosClusters."""
    return os.environ.get("HEARTH_NAMESPACE") or "hearth"


def kueue_namespace() -> str:
    """The namespace of Kueue and of the Secrets of its workers."""
    return os.environ.get("FOURNOS_MULTIKUEUE_KUEUE_NAMESPACE") or KUEUE_NAMESPACE
