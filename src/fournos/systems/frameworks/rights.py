"""What the shipped accounts may do, and which feature needs it."""

from __future__ import annotations

from typing import Final

from fournos.engine.queueing.rights import KUEUE, PARAMETERS
from fournos.engine.runtime.rights import CLUSTER, METRICS, OWNED, READ, Right, Rights, lease

OPERATOR: Final = Rights(
    "fournos-frameworks",
    (
        Right(
            CLUSTER, "get list watch create patch", "pipelineruns.tekton.dev", "runs; create: a new attempt"
        ),
        Right(CLUSTER, "update", "pipelineruns/finalizers.tekton.dev", "blockOwnerDeletion on OpenShift"),
        Right(CLUSTER, OWNED, f"workloads.{KUEUE}", "their place in the queue"),
        Right(CLUSTER, "patch", f"workloads/status.{KUEUE}", "quota given back; Finished"),
        Right(CLUSTER, "update", f"workloads/finalizers.{KUEUE}", "blockOwnerDeletion on OpenShift"),
        Right(CLUSTER, READ, f"{PARAMETERS} priorityclasses.scheduling.k8s.io", "placement and priority"),
        Right(
            CLUSTER,
            "get",
            f"localqueues.{KUEUE} clusterqueues.{KUEUE} admissionchecks.{KUEUE}",
            "where a queue leads",
        ),
        Right(CLUSTER, "list watch", "pods", "pods that Kueue queues a second time"),
        Right(CLUSTER, "create patch", "events.events.k8s.io", "events"),
        Right(
            CLUSTER,
            "list watch",
            "mutatingwebhookconfigurations.admissionregistration.k8s.io",
            "its webhooks",
        ),
        Right(
            CLUSTER,
            "get patch",
            "mutatingwebhookconfigurations.admissionregistration.k8s.io=fournos-frameworks",
            "the authority of its webhooks' certificate",
        ),
        *METRICS,
        *lease("fournos-frameworks", "frameworks"),
        Right(
            "fournos-frameworks",
            "get patch",
            "secrets=fournos-webhook-cert,fournos-metrics-cert",
            "certificates",
        ),
    ),
    all_namespaces="so may objects of configured kinds",
)
RIGHTS: Final = (OPERATOR,)
