"""What the shipped accounts may do, and which feature needs it."""

from __future__ import annotations

from typing import Final

from fournos.engine.queueing.rights import KUEUE, PARAMETERS
from fournos.engine.runtime.rights import CLUSTER, METRICS, OWNED, READ, Right, Rights, lease

OPERATOR: Final = Rights(
    "operator-controller-manager",
    (
        Right(
            CLUSTER, "get list watch patch delete", "miniclusters.flux-framework.org", "delete: spec.cleanup"
        ),
        Right(CLUSTER, "patch", "miniclusters/status.flux-framework.org", "their status"),
        Right(CLUSTER, "update", "miniclusters/finalizers.flux-framework.org", "blockOwnerDeletion"),
        Right(CLUSTER, OWNED, "jobs.batch", "the brokers"),
        Right(CLUSTER, OWNED, "pods", "job-index; the services pod"),
        Right(CLUSTER, "get list watch create patch", "configmaps services", "scripts and names"),
        Right(CLUSTER, "get list watch create", "secrets", "curve certificates: RBAC knows no labels"),
        Right(CLUSTER, OWNED, f"workloads.{KUEUE}", "their place in the queue"),
        Right(CLUSTER, "patch", f"workloads/status.{KUEUE}", "quota given back; Finished"),
        Right(CLUSTER, READ, f"{PARAMETERS} priorityclasses.scheduling.k8s.io", "placement and priority"),
        Right(CLUSTER, "list", "events.events.k8s.io", "why a pod does not start"),
        Right(CLUSTER, "create patch", "events.events.k8s.io", "events"),
        *METRICS,
        *lease("operator-system", "miniclusters"),
        Right(
            CLUSTER,
            "get",
            f"localqueues.{KUEUE} clusterqueues.{KUEUE} admissionchecks.{KUEUE}",
            "where a queue leads: spec.managedBy",
        ),
        Right(
            CLUSTER,
            "get",
            "validatingadmissionpolicybindings.admissionregistration.k8s.io=fournos-minicluster-pods",
            "whether authors' rights are checked",
        ),
        Right(
            "operator-system", "get patch", "secrets=minicluster-metrics-cert", "the certificate of /metrics"
        ),
    ),
    all_namespaces="and MiniClusters",
)
RIGHTS: Final = (OPERATOR,)
