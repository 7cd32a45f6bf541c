"""What the shipped accounts may do, and which feature needs it."""

from __future__ import annotations

from typing import Final

from fournos.engine.queueing.rights import KUEUE, PARAMETERS
from fournos.engine.runtime.rights import CLUSTER, METRICS, OWN, OWNED, READ, Right, Rights, lease

OPERATOR_NAMESPACE: Final = "fournos-operator"
"""The operator's own namespace in deploy/; that of the jobs is OWN."""
OPERATOR: Final = Rights(
    "fournos",
    (
        Right(OWN, "get list watch patch delete", "fournosjobs.fournos.dev", "jobs; delete: spec.ttl"),
        Right(OWN, "create", "fournosjobs.fournos.dev", "reruns of a suspected regression: spec.confirm"),
        Right(OWN, "patch update", "fournosjobs/status.fournos.dev", "update: the policy fournos-job-status"),
        Right(OWN, "update", "fournosjobs/finalizers.fournos.dev", "blockOwnerDeletion on OpenShift"),
        Right(OWN, OWNED, f"workloads.{KUEUE}", "a job's place in the queue"),
        Right(OWN, "patch", f"workloads/status.{KUEUE}", "quota given back after an eviction; Finished"),
        Right(OWN, "get", f"localqueues.{KUEUE}", "where a queue leads: spec.managedBy"),
        Right(CLUSTER, "get", f"admissionchecks.{KUEUE}", "where a queue leads: spec.managedBy"),
        Right(OWN, READ, "pipelines.tekton.dev", "the resolver's image; tasks without a limit"),
        Right(OWN, OWNED, "pipelineruns.tekton.dev", "runs; patch: cancel"),
        Right(
            OWN,
            "get",
            "taskruns.tekton.dev",
            "whose pod writes a job (the webhook own-job); results of a sent job",
        ),
        Right(OWN, "get list watch create delete", "jobs.batch", "resolvers"),
        Right(
            OWN, "get list delete", "pods", "quota goes back when a run's pods are gone; the webhook own-job"
        ),
        Right(OWN, "get", "pods/log", "the last lines of a resolver that failed"),
        Right(OWN, "get create patch delete", "secrets", "copies of a job's secrets, by name"),
        Right(OWN, "create patch", "events.events.k8s.io", "events"),
        *lease(OWN, "fournos", "get patch"),
        Right("$SECRETS_NAMESPACE", "get", "secrets", "kubeconfigs and Vault entries, by name"),
        Right(CLUSTER, READ, f"clusterqueues.{KUEUE} {PARAMETERS}", "clusters, GPU types and priorities"),
        *METRICS,
        Right(
            CLUSTER,
            "list watch",
            "validatingwebhookconfigurations.admissionregistration.k8s.io",
            "the webhook own-job: its configuration is watched",
        ),
        Right(
            CLUSTER,
            "get patch",
            "validatingwebhookconfigurations.admissionregistration.k8s.io=fournos-jobs-fournos",
            "the webhook own-job: its certificate's authority",
        ),
        Right(
            OPERATOR_NAMESPACE,
            "get patch",
            "secrets=fournos-webhook-cert",
            "the webhook own-job: its certificate",
        ),
        Right(OPERATOR_NAMESPACE, "get patch", "secrets=fournos-metrics-cert", "the certificate of /metrics"),
    ),
)

RESOLVER: Final = Rights(
    "fournos-resolver",
    (Right(OWN, "get patch", "fournosjobs.fournos.dev", "spec.hardware and spec.secretRefs (policies)"),),
)
ENGINES: Final = tuple(
    Rights(
        account,
        (
            Right(OWN, "get", "fournosjobs.fournos.dev", "an engine reads its job"),
            Right(OWN, "get patch", "fournosjobs/status.fournos.dev", "status.engineStatus (policies)"),
        ),
    )
    for account in ("default", "pipeline")
)
RIGHTS: Final = (OPERATOR, RESOLVER, *ENGINES)
