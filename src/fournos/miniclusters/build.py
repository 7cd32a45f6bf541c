"""The objects that a MiniCluster makes, as pure functions of its spec and the settings.

Order of creation: certificate Secret, headless Service, entrypoint ConfigMap, services pod, Services of
sidecars, Job.  Everything but the headless Service has the MiniCluster as its controller; that one may serve
several MiniClusters and has all of them as owners.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fournos.kube.kinds import SECRET
from fournos.kube.resource import Obj
from fournos.miniclusters import entrypoint, indexed_job, names, pods, services
from fournos.miniclusters.cluster import cluster_of
from fournos.miniclusters.settings import MiniClusterSettings
from fournos.queueing.podsets import PodSetInfo, placed
from fournos.queueing.workload import PodSet


def wanted(
    minicluster: Obj, settings: MiniClusterSettings, *, infos: Mapping[str, PodSetInfo] | None = None
) -> tuple[Obj, ...]:
    """All objects but the certificate and the headless Service, in order of creation.

    `infos` are what an admission gives the pod sets "main" (the Job's pods) and "services" (the services
    pod).  The Job is not suspended: make nothing while the MiniCluster is.  The ConfigMap is that of a
    start: leave the one of a running MiniCluster as it is.  Raises PodSetInfoError where template and
    admission contradict each other, pydantic's ValidationError where the spec cannot be read.
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
    """The Secret with the certificate: `flux.curveCert`, else `certificate` (from `curve.certificate`).

    Make it once: a new one would lock out the brokers that have the old one.
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
    """The headless Service as it should be, beside what other MiniClusters want of `existing`.

    Equal to `existing` when there is nothing to do.  A text says why the name cannot be used: somebody
    else's Service has it.
    """
    return services.headless(cluster_of(minicluster, settings), existing)


def pod_sets(minicluster: Obj, settings: MiniClusterSettings) -> tuple[PodSet, ...]:
    """What Kueue is asked quota for: "main" with as many pods as the largest size, "services" with one.

    A MiniCluster that is smaller than its largest size gives the rest back as reclaimable pods.
    """
    cluster = cluster_of(minicluster, settings)
    found = [PodSet(names.MAIN_POD_SET, cluster.maximum, pods.template(cluster))]
    if cluster.spec.services:
        found.append(PodSet(names.SERVICES_POD_SET, 1, pods.services_template(cluster)))
    return tuple(found)


def index_label(pod: Obj) -> dict[str, Any] | None:
    """The merge patch that gives a pod of our Job its label `job-index`; None if there is nothing to do."""
    labels = pod["metadata"].get("labels") or {}
    index = labels.get(names.COMPLETION_INDEX_LABEL)
    if index is None or labels.get(names.INDEX_LABEL) == index:
        return None
    return {"metadata": {"labels": {names.INDEX_LABEL: index}}}
