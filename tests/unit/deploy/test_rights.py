"""Every right that is shipped, with the feature that needs it: what is not in this table is not shipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
Right = tuple[str, str, str, str, str]
"""Account, where, verb, resource.group, names."""

READ = "get list watch"
WRAP = "get list watch create delete"
METRICS = [
    ("cluster", "create", "tokenreviews.authentication.k8s.io", "whose token asks for /metrics"),
    ("cluster", "create", "subjectaccessreviews.authorization.k8s.io", "whether it may have them"),
]
KUEUE = "kueue.x-k8s.io"
PARAMETERS = f"resourceflavors.{KUEUE} workloadpriorityclasses.{KUEUE}"


def lease(namespace: str, name: str, verbs: str = "get patch update") -> list[tuple[str, str, str, str]]:
    leases = "leases.coordination.k8s.io"
    return [
        (namespace, "create", leases, "leadership among replicas"),
        (namespace, verbs, f"{leases}={name}", "leadership among replicas"),
    ]


TABLE: dict[str, list[tuple[str, str, str, str]]] = {
    "fournos": [
        ("own", "get list watch patch delete", "fournosjobs.fournos.dev", "jobs; delete: spec.ttl"),
        (
            "own",
            "patch update",
            "fournosjobs/status.fournos.dev",
            "update: the policy fournos-job-status",
        ),
        ("own", "update", "fournosjobs/finalizers.fournos.dev", "blockOwnerDeletion on OpenShift"),
        ("own", "get list watch create patch delete", f"workloads.{KUEUE}", "a job's place in the queue"),
        ("own", "patch", f"workloads/status.{KUEUE}", "quota given back after an eviction; Finished"),
        ("own", "get", f"localqueues.{KUEUE}", "where a queue leads: spec.managedBy"),
        ("cluster", "get", f"admissionchecks.{KUEUE}", "where a queue leads: spec.managedBy"),
        ("own", READ, "pipelines.tekton.dev", "the resolver's image; tasks without a limit"),
        ("own", "get list watch create patch delete", "pipelineruns.tekton.dev", "runs; patch: cancel"),
        ("own", "get", "taskruns.tekton.dev", "whose pod writes a job (the webhook own-job)"),
        ("own", "get list watch create delete", "jobs.batch", "resolvers"),
        ("own", "get list delete", "pods", "quota goes back when a run's pods are gone; the webhook own-job"),
        ("own", "get", "pods/log", "the last lines of a resolver that failed"),
        ("own", "get create patch delete", "secrets", "copies of a job's secrets, by name"),
        ("own", "create patch", "events.events.k8s.io", "events"),
        *lease("own", "fournos", "get patch"),
        ("$SECRETS_NAMESPACE", "get", "secrets", "kubeconfigs and Vault entries, by name"),
        ("cluster", READ, f"clusterqueues.{KUEUE} {PARAMETERS}", "clusters, GPU types and priorities"),
        *METRICS,
        (
            "cluster",
            "list watch",
            "validatingwebhookconfigurations.admissionregistration.k8s.io",
            "the webhook own-job: its configuration is watched",
        ),
        (
            "cluster",
            "get patch",
            "validatingwebhookconfigurations.admissionregistration.k8s.io=fournos-jobs-fournos",
            "the webhook own-job: its certificate's authority",
        ),
        ("fournos", "get patch", "secrets=fournos-webhook-cert", "the webhook own-job: its certificate"),
    ],
    "fournos-resolver": [
        ("own", "get patch", "fournosjobs.fournos.dev", "spec.hardware and spec.secretRefs (policies)"),
    ],
    **{
        account: [
            ("own", "get", "fournosjobs.fournos.dev", "an engine reads its job"),
            ("own", "get patch", "fournosjobs/status.fournos.dev", "status.engineStatus (policies)"),
        ]
        for account in ("default", "pipeline")
    },
    "hearth": [
        ("hearth", "get list watch create patch delete", "fournosclusters.fournos.dev", "clusters"),
        ("hearth", "patch", "fournosclusters/status.fournos.dev", "their status"),
        ("hearth", "create", "configmaps", "the note of clusters that were removed"),
        ("hearth", "get patch", "configmaps=clusters-removed", "the note of clusters that were removed"),
        ("hearth", "get patch", "secrets=hearth-metrics-cert", "the certificate of /metrics"),
        ("hearth", "create patch", "events.events.k8s.io", "events"),
        *lease("hearth", "hearth"),
        ("psap-secrets", READ, "secrets", "clusters are found by labelled Secrets: RBAC knows no labels"),
        ("psap-secrets", "create patch", "events.events.k8s.io", "events about Secrets of clusters"),
        ("psap-automation", "get list watch create patch delete", "fournosjobs.fournos.dev", "locks"),
        ("psap-automation", "get list watch patch", f"workloads.{KUEUE}", "a held lock's priority; waiting"),
        ("cluster", "list", "fournosclusters.fournos.dev", "the published check of its rights"),
        ("cluster", "get list watch create patch delete", f"resourceflavors.{KUEUE}", "a flavor a cluster"),
        ("cluster", "get list watch patch", f"clusterqueues.{KUEUE}", "quotas"),
        ("cluster", "get list watch create", f"workloadpriorityclasses.{KUEUE}", "priorities of locks"),
        ("cluster", "use", f"workloadpriorityclasses.{KUEUE}=fournos-lock-held", "held locks (policies)"),
        *METRICS,
    ],
    "appwrapper-controller-manager": [
        ("cluster", "get list watch patch", "appwrappers.workload.codeflare.dev", "AppWrappers"),
        ("cluster", "patch", "appwrappers/status.workload.codeflare.dev", "their status"),
        ("cluster", "update", "appwrappers/finalizers.workload.codeflare.dev", "blockOwnerDeletion"),
        ("cluster", READ, "nodes", "labels of unhealthy nodes"),
        ("cluster", "create patch", "events.events.k8s.io", "events"),
        *METRICS,
        *(
            ("cluster", "list watch", f"{kind}webhookconfigurations.admissionregistration.k8s.io", "webhooks")
            for kind in ("mutating", "validating")
        ),
        *(
            (
                "cluster",
                "get patch",
                f"{kind}webhookconfigurations.admissionregistration.k8s.io"
                f"=appwrapper-{kind}-webhook-configuration",
                "the authority of its webhooks' certificate",
            )
            for kind in ("mutating", "validating")
        ),
        *lease("appwrapper-system", "appwrappers", "get patch"),
        (
            "appwrapper-system",
            "get patch",
            "secrets=appwrapper-webhook-server-cert,appwrapper-metrics-cert",
            "certificates",
        ),
        (
            "cluster",
            WRAP,
            "pods services deployments.apps statefulsets.apps jobs.batch jobsets.jobset.x-k8s.io "
            "leaderworkersets.leaderworkerset.x-k8s.io mpijobs.kubeflow.org pytorchjobs.kubeflow.org "
            "trainjobs.trainer.kubeflow.org rayclusters.ray.io rayjobs.ray.io "
            "podgroups.scheduling.sigs.k8s.io podgroups.scheduling.x-k8s.io pipelineruns.tekton.dev "
            "fournosjobs.fournos.dev miniclusters.flux-framework.org",
            "what may be wrapped; its creator must have the right to make it, too",
        ),
        ("cluster", "get list watch create patch delete", f"workloads.{KUEUE}", "own-workloads"),
        ("cluster", "patch", f"workloads/status.{KUEUE}", "own-workloads"),
        ("cluster", READ, f"{PARAMETERS} priorityclasses.scheduling.k8s.io", "own-workloads: placement"),
        ("cluster", "get", f"localqueues.{KUEUE}", "own-workloads: the default queue; spec.managedBy"),
        ("cluster", "get", f"clusterqueues.{KUEUE} admissionchecks.{KUEUE}", "where a queue leads"),
    ],
    "fournos-frameworks": [
        ("cluster", "get list watch create patch", "pipelineruns.tekton.dev", "runs; create: a new attempt"),
        ("cluster", "update", "pipelineruns/finalizers.tekton.dev", "blockOwnerDeletion on OpenShift"),
        ("cluster", "get list watch create patch delete", f"workloads.{KUEUE}", "their place in the queue"),
        ("cluster", "patch", f"workloads/status.{KUEUE}", "quota given back; Finished"),
        ("cluster", "update", f"workloads/finalizers.{KUEUE}", "blockOwnerDeletion on OpenShift"),
        ("cluster", READ, f"{PARAMETERS} priorityclasses.scheduling.k8s.io", "placement and priority"),
        (
            "cluster",
            "get",
            f"localqueues.{KUEUE} clusterqueues.{KUEUE} admissionchecks.{KUEUE}",
            "where a queue leads",
        ),
        ("cluster", "list watch", "pods", "pods that Kueue queues a second time"),
        ("cluster", "create patch", "events.events.k8s.io", "events"),
        (
            "cluster",
            "list watch",
            "mutatingwebhookconfigurations.admissionregistration.k8s.io",
            "its webhooks",
        ),
        (
            "cluster",
            "get patch",
            "mutatingwebhookconfigurations.admissionregistration.k8s.io=fournos-frameworks",
            "the authority of its webhooks' certificate",
        ),
        *METRICS,
        *lease("fournos-frameworks", "frameworks"),
        (
            "fournos-frameworks",
            "get patch",
            "secrets=fournos-webhook-cert,fournos-metrics-cert",
            "certificates",
        ),
    ],
    "operator-controller-manager": [
        ("cluster", "get list watch patch delete", "miniclusters.flux-framework.org", "delete: spec.cleanup"),
        ("cluster", "patch", "miniclusters/status.flux-framework.org", "their status"),
        ("cluster", "update", "miniclusters/finalizers.flux-framework.org", "blockOwnerDeletion"),
        ("cluster", "get list watch create patch delete", "jobs.batch", "the brokers"),
        ("cluster", "get list watch create patch delete", "pods", "job-index; the services pod"),
        ("cluster", "get list watch create patch", "configmaps services", "scripts and names"),
        ("cluster", "get list watch create", "secrets", "curve certificates: RBAC knows no labels"),
        ("cluster", "get list watch create patch delete", f"workloads.{KUEUE}", "their place in the queue"),
        ("cluster", "patch", f"workloads/status.{KUEUE}", "quota given back; Finished"),
        ("cluster", READ, f"{PARAMETERS} priorityclasses.scheduling.k8s.io", "placement and priority"),
        ("cluster", "list", "events.events.k8s.io", "why a pod does not start"),
        ("cluster", "create patch", "events.events.k8s.io", "events"),
        *METRICS,
        *lease("operator-system", "miniclusters"),
        (
            "cluster",
            "get",
            f"localqueues.{KUEUE} clusterqueues.{KUEUE} admissionchecks.{KUEUE}",
            "where a queue leads: spec.managedBy",
        ),
        ("operator-system", "get patch", "secrets=minicluster-metrics-cert", "the certificate of /metrics"),
    ],
    "fournos-multikueue": [
        ("cluster", READ, f"workloads.{KUEUE} admissionchecks.{KUEUE} multikueueconfigs.{KUEUE}", "dispatch"),
        (
            "cluster",
            "get list watch create patch delete",
            f"multikueueclusters.{KUEUE}",
            "a FournosCluster that is a worker",
        ),
        ("cluster", "patch", f"workloads/status.{KUEUE} admissionchecks/status.{KUEUE}", "dispatch"),
        *(
            row
            for kind, group in (
                ("pipelineruns", "tekton.dev"),
                ("miniclusters", "flux-framework.org"),
                ("appwrappers", "workload.codeflare.dev"),
                ("fournosjobs", "fournos.dev"),
            )
            for row in (
                ("cluster", READ, f"{kind}.{group}", "jobs that workers run"),
                ("cluster", "patch", f"{kind}/status.{group}", "the status that the worker reports"),
            )
        ),
        ("cluster", "update", "fournosjobs/status.fournos.dev", "policy fournos-job-status"),
        ("cluster", "create patch", "events.events.k8s.io", "events"),
        *METRICS,
        *lease("fournos-system", "fournos-multikueue"),
        ("fournos-system", "get patch", "secrets=fournos-multikueue-metrics-cert", "of /metrics"),
        ("kueue-system", "get list watch create patch", "secrets", "kubeconfigs of workers"),
        ("hearth", READ, "fournosclusters.fournos.dev", "FournosClusters that are workers"),
        ("psap-secrets", READ, "secrets", "their kubeconfigs"),
    ],
    "fournos-history": [
        (
            "cluster",
            "list watch",
            "fournosjobs.fournos.dev appwrappers.workload.codeflare.dev miniclusters.flux-framework.org",
            "the kinds that are recorded by default",
        ),
        (
            "cluster",
            "patch",
            "fournosjobs/status.fournos.dev",
            "status.archivedAt, and nothing else (policies)",
        ),
        ("cluster", "create", "runs.history.fournos.dev", "by it the policy fournos-job-status knows it"),
        ("cluster", "list watch", "fournosclusters.fournos.dev", "the class of the hardware: fingerprints"),
        (
            "cluster",
            "list watch",
            "pipelineruns.tekton.dev taskruns.tekton.dev",
            "tasks, images, the first start",
        ),
        ("cluster", "list watch", "jobs.batch pods", "resolvers; why a run does not start; image digests"),
        ("cluster", "list watch", "events.events.k8s.io", "the Events about a job and its run"),
        (
            "cluster",
            "list watch",
            "namespaces",
            "UIDs: of the cluster (kube-system) and of a run's namespace",
        ),
        (
            "cluster",
            "list watch",
            f"workloads.{KUEUE} localqueues.{KUEUE} clusterqueues.{KUEUE} resourceflavors.{KUEUE}",
            "the waiting ledger: quota, queues, who is ahead; the quota that a run held",
        ),
        ("cluster", "list watch", f"workloadpriorityclasses.{KUEUE}", "estimates of jobs to be submitted"),
        *METRICS,
        *lease("fournos-history", "fournos-history"),
        (
            "fournos-history",
            "get patch",
            "secrets=fournos-history-metrics-cert,fournos-history-cert",
            "the certificates of /metrics and of the API",
        ),
        (
            "cluster",
            "get",
            "pods pipelineruns.tekton.dev taskruns.tekton.dev fournosjobs.fournos.dev",
            "whose run sends its results: from its pod upwards",
        ),
        ("cluster", "get", "namespaces", "the UID of kube-system"),
        (
            "cluster",
            "get patch",
            "apiservices.apiregistration.k8s.io=v1.history.fournos.dev",
            "the API server trusts the certificate of the API",
        ),
        (
            "kube-system",
            READ,
            "configmaps=extension-apiserver-authentication",
            "requests that the API server forwards",
        ),
    ],
    "system:serviceaccounts": [
        (
            "cluster",
            "create update",
            "own/artifacts.history.fournos.dev own/results.history.fournos.dev",
            "a pod sends results of its own run; the history finds out which run that is",
        ),
    ],
    "multikueue": [
        ("cluster", "get list watch create delete update patch", f"workloads.{KUEUE}", "copies"),
        ("cluster", "get patch update", f"workloads/status.{KUEUE}", "copies; Kueue's own adapter"),
        (
            "cluster",
            "get list watch create delete",
            "pipelineruns.tekton.dev fournosjobs.fournos.dev miniclusters.flux-framework.org "
            "appwrappers.workload.codeflare.dev",
            "copies",
        ),
        ("cluster", READ, "jobs.batch pods", "Kueue's own adapter watches what its configuration names"),
        ("cluster", "get", f"namespaces localqueues.{KUEUE}", "fournos dispatch check"),
        ("kueue-system", "create", "serviceaccounts/token=multikueue,multikueue-logs", "tokens that end"),
    ],
    "multikueue-logs": [
        ("cluster", READ, "fournosjobs.fournos.dev", "fournos logs of a dispatched job"),
        ("cluster", "list watch", "pipelineruns.tekton.dev taskruns.tekton.dev", "fournos logs: tasks"),
        ("cluster", "list watch", "jobs.batch pods", "fournos logs: resolvers and pods"),
        ("cluster", "get", "pods/log", "fournos logs"),
    ],
    "kueue-controller-manager": [
        (
            "cluster",
            "get list watch patch update",
            "pipelineruns.tekton.dev pipelineruns/status.tekton.dev fournosjobs.fournos.dev "
            "fournosjobs/status.fournos.dev miniclusters.flux-framework.org "
            "miniclusters/status.flux-framework.org",
            "Kueue's adapter of external frameworks",
        ),
        ("cluster", READ, "taskruns.tekton.dev", "kinds between a run and its pods"),
    ],
    "prometheus-k8s": [("cluster", "get", "/metrics", "scraping")],
}
ALL_NAMESPACES = {
    "appwrapper-controller-manager": "AppWrappers may be in any namespace",
    "fournos-frameworks": "so may objects of configured kinds",
    "operator-controller-manager": "and MiniClusters",
    "fournos-multikueue": "jobs of all of them are dispatched",
    "fournos-history": "and recorded",
    "system:serviceaccounts": "whatever the namespace of a run; the right alone opens nothing",
    "multikueue": "into the namespaces of the same names on the worker",
    "multikueue-logs": "there, too",
    "kueue-controller-manager": "Kueue's",
}
"""Accounts that work in namespaces which they do not know beforehand."""
CLUSTER_SCOPED = {
    "nodes",
    "namespaces",
    "clusterqueues",
    "resourceflavors",
    "workloadpriorityclasses",
    "priorityclasses",
    "admissionchecks",
    "multikueueclusters",
    "multikueueconfigs",
    "tokenreviews",
    "subjectaccessreviews",
    "apiservices",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
}


def documents() -> Iterator[dict[str, Any]]:
    for folder in ("deploy", "manifests"):
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            yield from (one for one in yaml.safe_load_all(path.read_text()) if one and "kind" in one)


BUILT_IN: dict[tuple[str, str, str | None], dict[str, Any]] = {
    ("Role", "extension-apiserver-authentication-reader", "kube-system"): {
        "metadata": {},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["configmaps"],
                "resourceNames": ["extension-apiserver-authentication"],
                "verbs": ["get", "list", "watch"],
            }
        ],
    }
}
"""The roles of Kubernetes that our bindings name."""


def shipped() -> set[Right]:
    roles = {
        (one["kind"], one["metadata"]["name"], one["metadata"].get("namespace")): one
        for one in documents()
        if one["kind"] in ("Role", "ClusterRole")
    }
    roles |= BUILT_IN
    found: set[Right] = set()
    for one in documents():
        if one["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        reference, namespace = one["roleRef"], one["metadata"].get("namespace")
        role = roles[
            (reference["kind"], reference["name"], namespace if reference["kind"] == "Role" else None)
        ]
        where = "cluster" if one["kind"] == "ClusterRoleBinding" else namespace or "own"
        for subject in one["subjects"]:
            for rule in (rule for each in _aggregated(role, roles.values()) for rule in each["rules"]):
                for right in _rights(rule):
                    found.add((subject["name"], where, *right))
    return found


def _aggregated(role: dict[str, Any], roles: Any) -> list[dict[str, Any]]:
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if not selectors:
        return [role]
    return [
        one
        for one in roles
        if any(
            wanted["matchLabels"].items() <= (one["metadata"].get("labels") or {}).items()
            for wanted in selectors
        )
    ]


def _rights(rule: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    names = ",".join(rule.get("resourceNames", ()))
    for url in rule.get("nonResourceURLs", ()):
        yield from ((verb, url, "") for verb in rule["verbs"])
    for group in rule.get("apiGroups", ()):
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield verb, f"{resource}.{group}" if group else resource, names


def listed() -> set[Right]:
    return {
        (account, where, verb, *one.partition("=")[::2])
        for account, rows in TABLE.items()
        for where, verbs, resources, _ in rows
        for verb in verbs.split()
        for one in resources.split()
    }


def test_every_right_has_a_feature_that_needs_it_and_nothing_else_is_shipped() -> None:
    assert sorted(shipped() - listed()) == [], "shipped, and no feature needs it"
    assert sorted(listed() - shipped()) == [], "needed, and not shipped"


def test_every_row_has_a_reason() -> None:
    assert [row for rows in TABLE.values() for row in rows if not row[3].strip()] == []


def test_nothing_is_cluster_wide_that_can_be_by_name_or_namespace() -> None:
    wide = {
        (account, verb, resource)
        for account, where, verb, resource, _ in shipped()
        if where == "cluster"
        and not resource.startswith("/")
        and resource.partition(".")[0] not in CLUSTER_SCOPED
    }
    # Hearth's published check of its rights asks in whatever namespace one is.
    assert {one for one in wide if one[0] not in ALL_NAMESPACES} == {
        ("hearth", "list", "fournosclusters.fournos.dev")
    }


def test_what_can_be_by_name_is_by_name() -> None:
    for account, where, verb, resource, names in shipped():
        if resource == "leases.coordination.k8s.io":
            assert verb == "create" or names, (account, where)
        if resource.endswith("webhookconfigurations.admissionregistration.k8s.io"):
            assert verb in ("list", "watch") or names, account
        if resource == "configmaps" and where != "cluster":
            assert verb == "create" or names, account


def test_no_token_is_shipped_that_does_not_end() -> None:
    kinds = {one["type"] for one in documents() if one["kind"] == "Secret"}
    assert "kubernetes.io/service-account-token" not in kinds


def test_who_takes_jobs_to_workers_reads_no_logs_there_and_who_reads_logs_changes_nothing() -> None:
    of = {(account, verb, resource) for account, _, verb, resource, _ in shipped()}
    assert not of & {("multikueue", verb, "pods/log") for verb in READ.split()}
    assert {verb for account, verb, _ in of if account == "multikueue-logs"} == {"get", "list", "watch"}
