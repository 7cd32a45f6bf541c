"""Builds the objects of a MiniCluster, as pure functions of its spec and the settings.

Order of creation: certificate Secret, headless Service, entrypoint ConfigMap, services pod, Services of
sidecars, Job. The MiniCluster is the controller of all of them except the headless Service. Several
MiniClusters may share that Service, so each of them is an owner but none is the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.engine.kube.resource import JOB, SECRET, SERVICE, Obj
from fournos.engine.queueing.podsets import PodSetInfo, placed
from fournos.engine.queueing.workload import PodSet
from fournos.systems.miniclusters import names, pods, script
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.miniclusters.spec import Cluster, cluster_of

# --- the Indexed Job -----------------------------------------------------------------------------------
# A failed command ends the Job; its exit code is not retried. Pods that were killed are replaced. The Job
# has succeeded when the lead broker has.

KILLED: Final = (137, 143)
"""Exit codes of SIGKILL and SIGTERM.

A lead broker whose command ends with one of them exits with 1 (scripts/end.sh).
"""


def _on_exit(action: str, container: str, operator: str, *codes: int) -> dict[str, Any]:
    found = {"containerName": container, "operator": operator, "values": list(codes)}
    return {"action": action, "onExitCodes": found}


def _failure_policy(cluster: Cluster) -> list[dict[str, Any]]:
    """Returns the rules of the pod failure policy.

    Kubernetes applies the first rule that matches a failed pod.   If Flux has ended with 0, a sidecar has
    failed. Nothing is run again for that.
    """
    flux, disrupted = cluster.name, {"type": "DisruptionTarget", "status": "True"}
    rules = [
        _on_exit("Ignore", flux, "In", names.STOPPED),
        {"action": "Ignore", "onPodConditions": [disrupted]},
    ]
    if not cluster.retried:
        rules.append(_on_exit("FailJob", flux, "NotIn", *KILLED))
    if cluster.beside:
        rules.append(_on_exit("Count", flux, "NotIn", names.STOPPED))
        rules += [_on_exit("FailIndex", str(one.name), "NotIn", 0) for one in cluster.beside]
    return rules


def indexed_job(cluster: Cluster, placed: dict[str, Any]) -> dict[str, Any]:
    """Returns the Job with this pod template.

    Kubernetes' API allows a pod failure policy only with restartPolicy Never.
    """
    spec = cluster.spec
    metadata = cluster.metadata(cluster.name)
    body: dict[str, Any] = {
        "backoffLimit": names.BACKOFF_LIMIT if spec.backoff_limit is None else spec.backoff_limit,
        "completionMode": "Indexed",
        "completions": spec.size,
        "parallelism": spec.size,
        "activeDeadlineSeconds": spec.deadline_seconds,
        "template": placed,
    }
    if not cluster.bursted:
        body["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    if placed["spec"]["restartPolicy"] == "Never":
        body["podFailurePolicy"] = {"rules": _failure_policy(cluster)}
        # With a limit per index the Job controller notes in a pod how many failed before it, and delays the
        # next one accordingly: build.index_label resets that. FailIndex requires the limit, too.
        body["backoffLimitPerIndex"] = body["backoffLimit"]
        if not cluster.beside:
            # A worker that fails beside its lead broker must not use up the retries of the command. So each
            # index counts for itself, and the first that fails too often ends the Job. FailIndex must not end
            # it: with sidecars there is only the limit of all indexes together.
            del body["backoffLimit"]
            body["maxFailedIndexes"] = 0
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {**metadata, "labels": {**spec.job_labels, **metadata["labels"]}},
        "spec": body,
    }


# --- Services ------------------------------------------------------------------------------------------
# The Services: a headless one that gives the pods their DNS names, and one per sidecar with ports.
#
# Several MiniClusters of a namespace may share a headless Service; by default all do, under the name that
# the page promises. It selects pods by a label with its own name. All MiniClusters that use it are its
# owners, so Kubernetes garbage-collects it with the last one.

_LEAD_ONLY: Final = {names.COMPLETION_INDEX_LABEL: "0"}


def headless(cluster: Cluster, existing: Obj | None = None) -> dict[str, Any] | str:
    """Returns the Service that this MiniCluster needs, and keeps what others need of `existing`.

    With `minimalService` only lead brokers are reachable, unless another MiniCluster that shares the Service
    needs all pods. If `existing` cannot be used, the result is the message about it.
    """
    name = cluster.headless_name
    selector = {names.HEADLESS_LABEL: name}
    body: dict[str, Any] = {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": {
            **cluster.metadata(name, controller=False),
            "labels": {names.HEADLESS_LABEL: name},
        },
        "spec": {
            "clusterIP": "None",
            # A broker becomes ready only after it has found the others, so unready pods need DNS names too.
            "publishNotReadyAddresses": True,
            "selector": {**selector, **(_LEAD_ONLY if cluster.spec.flux.minimal_service else {})},
        },
    }
    if existing is None:
        return body
    meta = existing["metadata"]
    if (meta.get("labels") or {}).get(names.HEADLESS_LABEL) != name:
        return (
            f"Service {name} belongs to somebody else: choose another name with network.headlessName, "
            "or delete that Service"
        )
    owners = list(meta.get("ownerReferences") or ())
    if cluster.uid and all(owner["uid"] != cluster.uid for owner in owners):
        owners.append(cluster.owner_reference(controller=False))
    service: dict[str, Any] = {**existing, "metadata": {**meta, "ownerReferences": owners}}
    if not cluster.spec.flux.minimal_service and existing["spec"].get("selector") != selector:
        service["spec"] = {**existing["spec"], "selector": selector}
    return service


def sidecars(cluster: Cluster) -> list[dict[str, Any]]:
    """Returns a Service per sidecar with ports. It has the container's name."""
    runner = cluster.spec.runner_index
    return [
        {
            "apiVersion": SERVICE.api_version,
            "kind": SERVICE.kind,
            "metadata": cluster.metadata(str(container.name)),
            "spec": {
                # Only the pods of its Job have both labels. The services pod and pods of others share the
                # name label.
                "selector": {names.MINICLUSTER_LABEL: cluster.name, names.SCALE_LABEL: cluster.name},
                "ports": [
                    {"name": f"port-{port}", "port": port, "targetPort": port, "protocol": "TCP"}
                    for port in dict.fromkeys(container.ports)
                ],
            },
        }
        for index, container in enumerate(cluster.spec.containers)
        if index != runner and container.ports
    ]


# --- all objects ---------------------------------------------------------------------------------------


def wanted(
    minicluster: Obj, settings: MiniClusterSettings, *, infos: Mapping[str, PodSetInfo] | None = None
) -> tuple[Obj, ...]:
    """Returns all objects except the certificate and the headless Service, in order of creation.

    `infos` are the admission's changes to the pod sets "main" (the Job's pods) and "services" (the services
    pod). The Job is not suspended, so create nothing while the MiniCluster is suspended. The ConfigMap
    belongs to one start; do not update the ConfigMap of a running MiniCluster. Raises PodSetInfoError if
    template and admission contradict each other, and pydantic's ValidationError if the spec is invalid.
    """
    cluster = cluster_of(minicluster, settings)

    def admitted(template: dict[str, Any], pod_set: str) -> dict[str, Any]:
        info = (infos or {}).get(pod_set)
        return placed(template, info) if info else template

    made = [script.config_map(cluster)]
    if cluster.spec.services:
        template = admitted(pods.services_template(cluster), names.SERVICES_POD_SET)
        made.append(pods.services_pod(cluster, template))
    made += sidecars(cluster)
    made.append(indexed_job(cluster, admitted(pods.template(cluster), names.MAIN_POD_SET)))
    return tuple(made)


def certificate_secret(minicluster: Obj, settings: MiniClusterSettings, *, certificate: str) -> Obj:
    """Returns the Secret with the certificate.

    The content is `flux.curveCert` if it is set, otherwise `certificate` (from `curve.certificate`). Create
    it once only: brokers with the old certificate cannot connect to brokers with a new one.
    """
    cluster = cluster_of(minicluster, settings)
    return {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": cluster.metadata(names.curve(cluster.name)),
        "type": "Opaque",
        "stringData": {names.CURVE_KEY: cluster.spec.flux.curve_cert or certificate},
    }


def headless_service(
    minicluster: Obj, settings: MiniClusterSettings, *, existing: Obj | None = None
) -> Obj | str:
    """Returns the wanted headless Service, including what other MiniClusters need of `existing`.

    The result equals `existing` if nothing has to change. If a Service that is not ours has the name, the
    result is the message about it.
    """
    return headless(cluster_of(minicluster, settings), existing)


def pod_sets(minicluster: Obj, settings: MiniClusterSettings) -> tuple[PodSet, ...]:
    """Returns the pod sets for which quota is requested from Kueue.

    "main" counts the largest size, "services" counts one pod. A MiniCluster below its largest size returns
    the difference as reclaimable pods.
    """
    cluster = cluster_of(minicluster, settings).at_its_largest
    sets = [PodSet(names.MAIN_POD_SET, cluster.maximum, pods.template(cluster))]
    if cluster.spec.services:
        sets.append(PodSet(names.SERVICES_POD_SET, 1, pods.services_template(cluster)))
    return tuple(sets)


def index_label(pod: Obj) -> dict[str, Any] | None:
    """Returns the merge patch that sets `job-index` on a pod of our Job; None if nothing changes.

    It also removes the Job controller's count of stops before this pod. With each of them the controller
    doubles the wait for the next pod, up to ten minutes, and only a success, which a broker never has, resets
    it. Failures that count toward a limit are in another annotation, and stay.
    """
    labels = pod["metadata"].get("labels") or {}
    index = labels.get(names.COMPLETION_INDEX_LABEL)
    if index is None or labels.get(names.INDEX_LABEL) == index:
        return None
    return {
        "metadata": {
            "labels": {names.INDEX_LABEL: index},
            "annotations": {names.IGNORED_FAILURES_ANNOTATION: None},
        }
    }
