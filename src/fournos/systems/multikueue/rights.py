"""What the shipped accounts may do, and which feature needs it."""

from __future__ import annotations

from typing import Final

from fournos.engine.queueing.rights import KUEUE
from fournos.engine.runtime.rights import CLUSTER, METRICS, OWNED, READ, Right, Rights, lease

OPERATOR: Final = Rights(
    "fournos-multikueue",
    (
        Right(
            CLUSTER, READ, f"workloads.{KUEUE} admissionchecks.{KUEUE} multikueueconfigs.{KUEUE}", "dispatch"
        ),
        Right(CLUSTER, OWNED, f"multikueueclusters.{KUEUE}", "a FournosCluster that is a worker"),
        Right(CLUSTER, "patch", f"workloads/status.{KUEUE} admissionchecks/status.{KUEUE}", "dispatch"),
        *(
            row
            for kind, group in (
                ("pipelineruns", "tekton.dev"),
                ("miniclusters", "flux-framework.org"),
                ("appwrappers", "workload.codeflare.dev"),
                ("fournosjobs", "fournos.dev"),
            )
            for row in (
                Right(CLUSTER, READ, f"{kind}.{group}", "jobs that workers run"),
                Right(CLUSTER, "patch", f"{kind}/status.{group}", "the status that the worker reports"),
            )
        ),
        Right(CLUSTER, "update", "fournosjobs/status.fournos.dev", "policy fournos-job-status"),
        Right(CLUSTER, "create patch", "events.events.k8s.io", "events"),
        *METRICS,
        *lease("fournos-system", "fournos-multikueue"),
        Right("fournos-system", "get patch", "secrets=fournos-multikueue-metrics-cert", "of /metrics"),
        Right("kueue-system", "get list watch create patch", "secrets", "kubeconfigs of workers"),
        Right("hearth", READ, "fournosclusters.fournos.dev", "FournosClusters that are workers"),
        Right("psap-secrets", READ, "secrets", "their kubeconfigs"),
    ),
    all_namespaces="jobs of all of them are dispatched",
)

WORKER: Final = Rights(
    "multikueue",
    (
        Right(CLUSTER, f"{OWNED} update", f"workloads.{KUEUE}", "copies"),
        Right(CLUSTER, "get patch update", f"workloads/status.{KUEUE}", "copies; Kueue's own adapter"),
        Right(
            CLUSTER,
            "get list watch create delete",
            "pipelineruns.tekton.dev fournosjobs.fournos.dev miniclusters.flux-framework.org "
            "appwrappers.workload.codeflare.dev",
            "copies",
        ),
        Right(CLUSTER, "use", f"workloadpriorityclasses.{KUEUE}=fournos-lock-held", "copies of held locks"),
        Right(CLUSTER, "create", "miniclusters/pods.flux-framework.org", "copies: checked on the manager"),
        Right(CLUSTER, READ, "jobs.batch pods", "Kueue's own adapter watches what its configuration names"),
        Right(CLUSTER, "get", f"namespaces localqueues.{KUEUE}", "fournos dispatch check"),
        Right(
            "kueue-system", "create", "serviceaccounts/token=multikueue,multikueue-logs", "tokens that end"
        ),
    ),
    all_namespaces="into the namespaces of the same names on the worker",
)
WORKER_LOGS: Final = Rights(
    "multikueue-logs",
    (
        Right(CLUSTER, READ, "fournosjobs.fournos.dev", "fournos logs of a dispatched job"),
        Right(CLUSTER, "list watch", "pipelineruns.tekton.dev taskruns.tekton.dev", "fournos logs: tasks"),
        Right(CLUSTER, "list watch", "jobs.batch pods", "fournos logs: resolvers and pods"),
        Right(CLUSTER, "get", "pods/log", "fournos logs"),
    ),
    all_namespaces="there, too",
)
RIGHTS: Final = (OPERATOR, WORKER, WORKER_LOGS)
