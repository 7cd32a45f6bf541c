"""Kueue's resource types (API v1beta2, served since Kueue 0.15).

A module of its own, as the client library reads it and must not load the job framework.
"""

from __future__ import annotations

from fournos.engine.kube.resource import Resource

GROUP = "kueue.x-k8s.io"
VERSION = "v1beta2"

WORKLOAD = Resource(GROUP, VERSION, "Workload", "workloads")
LOCAL_QUEUE = Resource(GROUP, VERSION, "LocalQueue", "localqueues")
CLUSTER_QUEUE = Resource(GROUP, VERSION, "ClusterQueue", "clusterqueues", namespaced=False)
RESOURCE_FLAVOR = Resource(GROUP, VERSION, "ResourceFlavor", "resourceflavors", namespaced=False)
ADMISSION_CHECK = Resource(GROUP, VERSION, "AdmissionCheck", "admissionchecks", namespaced=False)
WORKLOAD_PRIORITY_CLASS = Resource(
    GROUP, VERSION, "WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False
)
