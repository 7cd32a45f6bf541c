"""What the shipped accounts may do, and which feature needs it."""

from __future__ import annotations

from typing import Final

from fournos.engine.queueing.rights import KUEUE, PARAMETERS
from fournos.engine.runtime.rights import CLUSTER, METRICS, OWNED, READ, Right, Rights, lease
from fournos.systems.appwrappers.kinds import WRAPPED

WRAPPABLE: Final = " ".join(
    (
        *(f"{kind.resource.plural}.{kind.resource.group}".removesuffix(".") for kind in WRAPPED),
        *("services", "podgroups.scheduling.sigs.k8s.io", "podgroups.scheduling.x-k8s.io"),
    )
)
"""The known kinds of components, and those without pods that usually stand beside them."""
OPERATOR: Final = Rights(
    "appwrapper-controller-manager",
    (
        Right(CLUSTER, "get list watch patch", "appwrappers.workload.codeflare.dev", "AppWrappers"),
        Right(CLUSTER, "patch", "appwrappers/status.workload.codeflare.dev", "their status"),
        Right(CLUSTER, "update", "appwrappers/finalizers.workload.codeflare.dev", "blockOwnerDeletion"),
        Right(CLUSTER, READ, "nodes", "labels of unhealthy nodes"),
        Right(CLUSTER, "create patch", "events.events.k8s.io", "events"),
        *METRICS,
        *(
            Right(
                CLUSTER, "list watch", f"{kind}webhookconfigurations.admissionregistration.k8s.io", "webhooks"
            )
            for kind in ("mutating", "validating")
        ),
        *(
            Right(
                CLUSTER,
                "get patch",
                f"{kind}webhookconfigurations.admissionregistration.k8s.io"
                f"=appwrapper-{kind}-webhook-configuration",
                "the authority of its webhooks' certificate",
            )
            for kind in ("mutating", "validating")
        ),
        *lease("appwrapper-system", "appwrappers", "get patch"),
        Right(
            "appwrapper-system",
            "get patch",
            "secrets=appwrapper-webhook-server-cert,appwrapper-metrics-cert",
            "certificates",
        ),
        Right(
            CLUSTER,
            "get list watch create delete",
            WRAPPABLE,
            "what may be wrapped; its creator must have the right to make it, too",
        ),
        Right(CLUSTER, OWNED, f"workloads.{KUEUE}", "own-workloads"),
        Right(CLUSTER, "patch", f"workloads/status.{KUEUE}", "own-workloads"),
        Right(CLUSTER, READ, f"{PARAMETERS} priorityclasses.scheduling.k8s.io", "own-workloads: placement"),
        Right(CLUSTER, "get", f"localqueues.{KUEUE}", "own-workloads: the default queue; spec.managedBy"),
        Right(CLUSTER, "get", f"clusterqueues.{KUEUE} admissionchecks.{KUEUE}", "where a queue leads"),
    ),
    all_namespaces="AppWrappers may be in any namespace",
)
RIGHTS: Final = (OPERATOR,)
