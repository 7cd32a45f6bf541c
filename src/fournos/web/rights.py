"""What the shipped account may do, and which feature needs it."""

from __future__ import annotations

from typing import Final

from fournos.engine.queueing.rights import KUEUE
from fournos.engine.runtime.rights import CLUSTER, Right, Rights

SERVER: Final = Rights(
    "fournos-web",
    (
        Right(CLUSTER, "list watch", "fournosjobs.fournos.dev", "jobs; people see what they may read"),
        Right(CLUSTER, "list watch", "fournosschedules.fournos.dev", "schedules, and the times of the week"),
        Right(CLUSTER, "list watch", "fournosclusters.fournos.dev", "the fleet"),
        Right(
            CLUSTER,
            "list watch",
            f"workloads.{KUEUE} localqueues.{KUEUE} clusterqueues.{KUEUE} resourceflavors.{KUEUE}",
            "the queue: places, reasons, quota",
        ),
        Right(CLUSTER, "create", "tokenreviews.authentication.k8s.io", "who logs in; who reads /metrics"),
        Right(
            CLUSTER,
            "create",
            "subjectaccessreviews.authorization.k8s.io",
            "what a person may see; who may read /metrics",
        ),
        Right(
            "fournos-web",
            "get patch",
            "secrets=fournos-web-cert,fournos-web-session,fournos-web-metrics-cert",
            "the certificates of the page and of /metrics; the key of sessions",
        ),
        Right(
            "fournos-web",
            "watch",
            "secrets=fournos-web-session",
            "a log-out on one replica ends the session on all",
        ),
        Right(
            CLUSTER,
            "impersonate",
            "users groups=oidc:perf-team",
            "deploy/web-impersonation alone: writes of people whose provider the API server does not know",
        ),
    ),
    all_namespaces="jobs of all of them are shown, each to those who may read it",
)
RIGHTS: Final = (SERVER,)
