"""What the shipped accounts may do, and which feature needs it."""

from __future__ import annotations

from typing import Final

from fournos.engine.queueing.rights import KUEUE
from fournos.engine.runtime.rights import CLUSTER, METRICS, OWNED, READ, Right, Rights, lease

OPERATOR: Final = Rights(
    "hearth",
    (
        Right("hearth", OWNED, "fournosclusters.fournos.dev", "clusters"),
        Right("hearth", "patch", "fournosclusters/status.fournos.dev", "their status"),
        Right("hearth", "create", "configmaps", "the note of clusters that were removed"),
        Right("hearth", "get patch", "configmaps=clusters-removed", "the note of clusters that were removed"),
        Right("hearth", "get patch", "secrets=hearth-metrics-cert", "the certificate of /metrics"),
        Right("hearth", "create patch", "events.events.k8s.io", "events"),
        *lease("hearth", "hearth"),
        Right(
            "psap-secrets", READ, "secrets", "clusters are found by labelled Secrets: RBAC knows no labels"
        ),
        Right("psap-secrets", "create patch", "events.events.k8s.io", "events about Secrets of clusters"),
        Right("psap-automation", OWNED, "fournosjobs.fournos.dev", "locks"),
        Right(
            "psap-automation", "get list watch patch", f"workloads.{KUEUE}", "a held lock's priority; waiting"
        ),
        Right(CLUSTER, "list", "fournosclusters.fournos.dev", "the published check of its rights"),
        Right(CLUSTER, OWNED, f"resourceflavors.{KUEUE}", "a flavor a cluster"),
        Right(CLUSTER, "get list watch patch", f"clusterqueues.{KUEUE}", "quotas"),
        Right(CLUSTER, "get list watch create", f"workloadpriorityclasses.{KUEUE}", "priorities of locks"),
        Right(CLUSTER, "use", f"workloadpriorityclasses.{KUEUE}=fournos-lock-held", "held locks (policies)"),
        *METRICS,
    ),
)
RIGHTS: Final = (OPERATOR,)
