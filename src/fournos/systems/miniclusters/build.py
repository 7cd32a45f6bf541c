"""Builds the objects of a MiniCluster, as pure functions of its spec and the settings.

Order of creation: certificate Secret, headless Service, entrypoint ConfigMap, services pod, Services of
sidecars, Job. The MiniCluster is the controller of all of them except the headless Service. Several
MiniClusters may share that Service, so each of them is an owner but none is the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fournos.engine.kube.resource import SECRET, Obj
from fournos.engine.queueing.podsets import PodSetInfo, placed
from fournos.engine.queueing.workload import PodSet
from fournos.systems.miniclusters import entrypoint, indexed_job, names, pods, services
from fournos.systems.miniclusters.cluster import cluster_of
from fournos.systems.miniclusters.settings import MiniClusterSettings


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

    made = [entrypoint.config_map(cluster)]
    if cluster.spec.services:
        template = admitted(pods.services_template(cluster), names.SERVICES_POD_SET)
        made.append(pods.services_pod(cluster, template))
    made += services.sidecars(cluster)
    made.append(indexed_job.indexed_job(cluster, admitted(pods.template(cluster), names.MAIN_POD_SET)))
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
    return services.headless(cluster_of(minicluster, settings), existing)


def pod_sets(minicluster: Obj, settings: MiniClusterSettings) -> tuple[PodSet, ...]:
    """Returns the pod sets for which quota is requested from Kueue.

    "main" counts the largest size, "services" counts one pod. A MiniCluster below its largest size returns
    the difference as reclaimable pods.
    """
    cluster = cluster_of(minicluster, settings)
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
