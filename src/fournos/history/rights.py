"""What the shipped accounts may do, and which feature needs it."""

from __future__ import annotations

from typing import Final

from fournos.engine.queueing.rights import KUEUE
from fournos.engine.runtime.rights import CLUSTER, METRICS, READ, Right, Rights, lease

OPERATOR: Final = Rights(
    "fournos-history",
    (
        Right(
            CLUSTER,
            "list watch",
            "fournosjobs.fournos.dev appwrappers.workload.codeflare.dev miniclusters.flux-framework.org",
            "the kinds that are recorded by default",
        ),
        Right(
            CLUSTER,
            "patch",
            "fournosjobs/status.fournos.dev",
            "status.archivedAt and suspectedAt, and nothing else (policies)",
        ),
        Right(CLUSTER, "create", "runs.history.fournos.dev", "by it the policy fournos-job-status knows it"),
        Right(
            CLUSTER, "list watch", "fournosclusters.fournos.dev", "the class of the hardware: fingerprints"
        ),
        Right(
            CLUSTER,
            "list watch",
            "pipelineruns.tekton.dev taskruns.tekton.dev",
            "tasks, images, the first start",
        ),
        Right(CLUSTER, "list watch", "jobs.batch pods", "resolvers; why a run does not start; image digests"),
        Right(CLUSTER, "get", "pods/log", "logs, before a deletion takes the pods away"),
        Right(CLUSTER, "list watch", "events.events.k8s.io", "the Events about a job and its run"),
        Right(CLUSTER, "create", "events.events.k8s.io", "a confirmed change is an Event of its job"),
        Right(
            CLUSTER, "list watch", "namespaces", "UIDs: of the cluster (kube-system) and of a run's namespace"
        ),
        Right(
            CLUSTER,
            "list watch",
            f"workloads.{KUEUE} localqueues.{KUEUE} clusterqueues.{KUEUE} resourceflavors.{KUEUE}",
            "the waiting ledger: quota, queues, who is ahead; the quota that a run held",
        ),
        Right(CLUSTER, "list watch", f"workloadpriorityclasses.{KUEUE}", "estimates of jobs to be submitted"),
        *METRICS,
        *lease("fournos-history", "fournos-history"),
        Right(
            "fournos-history",
            "get patch",
            "secrets=fournos-history-metrics-cert,fournos-history-cert",
            "the certificates of /metrics and of the API",
        ),
        Right(
            CLUSTER,
            "get",
            "pods pipelineruns.tekton.dev taskruns.tekton.dev fournosjobs.fournos.dev",
            "whose run sends its results: from its pod upwards",
        ),
        Right(CLUSTER, "get", "namespaces", "the UID of kube-system"),
        Right(
            CLUSTER,
            "get patch",
            "apiservices.apiregistration.k8s.io=v1.history.fournos.dev",
            "the API server trusts the certificate of the API",
        ),
        Right(
            "kube-system",
            READ,
            "configmaps=extension-apiserver-authentication",
            "requests that the API server forwards",
        ),
    ),
    all_namespaces="and recorded",
)

SENDERS: Final = Rights(
    "system:serviceaccounts",
    (
        Right(
            CLUSTER,
            "create update",
            "own/artifacts.history.fournos.dev own/results.history.fournos.dev",
            "a pod sends results of its own run; the history finds out which run that is",
        ),
    ),
    all_namespaces="whatever the namespace of a run; the right alone opens nothing",
)
RIGHTS: Final = (OPERATOR, SENDERS)
