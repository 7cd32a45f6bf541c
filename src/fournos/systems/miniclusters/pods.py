"""The pod template of the Job, and the services pod."""

from __future__ import annotations

from typing import Any, Final

from fournos.api.minicluster_values import quantities
from fournos.engine.kube.resource import POD
from fournos.systems.miniclusters import containers, names, script
from fournos.systems.miniclusters.containers import Volumes
from fournos.systems.miniclusters.spec import Cluster

_SHUTDOWN_SEC: Final = 30
"""Seconds for the broker's own shutdown, after the drain."""
_WEIGHT: Final = 100


def _labels(cluster: Cluster) -> dict[str, str]:
    """Returns the labels of a pod.

    `namespace` and the labels that selectors use are always ours; the page documents that `namespace` is
    overridden.
    """
    return {
        **cluster.spec.pod.labels,
        names.NAMESPACE_LABEL: cluster.namespace,
        names.APP_LABEL: cluster.spec.pod.labels.get(names.APP_LABEL, names.APP),
        names.HEADLESS_LABEL: cluster.headless_name,
        **names.labels(cluster.name),
    }


def affinity(cluster: Cluster) -> dict[str, Any] | None:
    """Returns the affinity: one zone and one pod per node are preferred, node labels are required."""
    spec = cluster.spec
    if spec.network.disable_affinity:
        return None
    own = {"matchExpressions": [{"key": names.NAME_LABEL, "operator": "In", "values": [cluster.name]}]}

    def preferred(topology: str) -> dict[str, Any]:
        term = {"labelSelector": own, "topologyKey": topology}
        return {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": _WEIGHT, "podAffinityTerm": term}]
        }

    terms: dict[str, Any] = {
        "podAffinity": preferred("topology.kubernetes.io/zone"),
        "podAntiAffinity": preferred("kubernetes.io/hostname"),
    }
    expressions = [
        {"key": key, "operator": "In", "values": list(values)}
        for key, values in sorted(spec.pod.node_affinity.items())
    ]
    if expressions:
        terms["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": expressions}]
            }
        }
    return terms


def _pod_options(cluster: Cluster) -> dict[str, Any]:
    """Returns the fields that both kinds of pods take from `spec.pod`."""
    pod = cluster.spec.pod
    texts = {
        "subdomain": cluster.headless_name,
        "serviceAccountName": pod.service_account_name,
        "schedulerName": pod.scheduler_name,
        "runtimeClassName": pod.runtime_class_name,
        "dnsPolicy": pod.dns_policy,
    }
    options: dict[str, Any] = {key: text for key, text in texts.items() if text}
    if pod.node_selector:
        options["nodeSelector"] = pod.node_selector
    if pod.tolerations:
        options["tolerations"] = [one.model_dump(by_alias=True, exclude_none=True) for one in pod.tolerations]
    if pod.automount_service_account_token is not None:
        options["automountServiceAccountToken"] = pod.automount_service_account_token
    if pod.security_context:
        options["securityContext"] = pod.security_context.as_json()
    return options


def template(cluster: Cluster) -> dict[str, Any]:
    """Returns the pod template of the Job, before an admission changes it."""
    spec = cluster.spec
    keys = script.data(cluster)
    pod = Volumes(containers.shared(cluster, keys))
    made = [
        containers.runner(cluster, pod)
        if index == spec.runner_index
        else containers.sidecar(cluster, index, pod)
        for index in range(len(spec.containers))
    ]
    body: dict[str, Any] = {
        **_pod_options(cluster),
        "restartPolicy": spec.pod.restart_policy or "Never",
        "terminationGracePeriodSeconds": cluster.settings.drain_grace_sec + _SHUTDOWN_SEC,
        "setHostnameAsFQDN": False,
        "shareProcessNamespace": spec.share_process_namespace,
        "initContainers": [containers.flux_view(cluster)],
        "containers": made,
        "volumes": pod.volumes,
    }
    secrets = dict.fromkeys(
        secret
        for secret in (
            *(container.image_pull_secret for container in spec.containers),
            spec.flux.container.image_pull_secret,
        )
        if secret
    )
    if secrets:
        body["imagePullSecrets"] = [{"name": secret} for secret in secrets]
    wanted = affinity(cluster)
    if wanted:
        body["affinity"] = wanted
    whole = {
        key: amount for key, amount in quantities(spec.pod.resources).items() if containers.pod_level(key)
    }
    if whole:
        # `overhead` is not set: Kubernetes fills it from the RuntimeClass and refuses any other value.
        body["resources"] = {"requests": whole}
    for key, flag in (("hostIPC", spec.pod.host_ipc), ("hostPID", spec.pod.host_pid)):
        if flag:
            body[key] = True
    if spec.resource_claims:
        body["resourceClaims"] = [
            claim.model_dump(by_alias=True, exclude_none=True) for claim in spec.resource_claims
        ]
    meta: dict[str, Any] = {"labels": {**_labels(cluster), names.SCALE_LABEL: cluster.name}}
    if spec.pod.annotations:
        meta["annotations"] = spec.pod.annotations
    return {"metadata": meta, "spec": body}


def services_template(cluster: Cluster) -> dict[str, Any]:
    """Returns the template of the services pod, before an admission changes it."""
    pod = Volumes()
    made = [containers.service(container, pod) for container in cluster.spec.services]
    body: dict[str, Any] = {
        **_pod_options(cluster),
        "hostname": names.services_pod(cluster.name),
        "restartPolicy": cluster.spec.pod.restart_policy or "OnFailure",
        "containers": made,
    }
    if pod.volumes:
        body["volumes"] = pod.volumes
    secrets = dict.fromkeys(c.image_pull_secret for c in cluster.spec.services if c.image_pull_secret)
    if secrets:
        body["imagePullSecrets"] = [{"name": secret} for secret in secrets]
    meta: dict[str, Any] = {"labels": _labels(cluster)}
    if cluster.spec.pod.annotations:
        meta["annotations"] = cluster.spec.pod.annotations
    return {"metadata": meta, "spec": body}


def services_pod(cluster: Cluster, placed: dict[str, Any]) -> dict[str, Any]:
    """Returns the services pod from its template, which contains the admission's changes."""
    meta = placed["metadata"]
    made = cluster.metadata(names.services_pod(cluster.name))
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": {**made, **meta, "labels": {**made["labels"], **(meta.get("labels") or {})}},
        "spec": placed["spec"],
    }
