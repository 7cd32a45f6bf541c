"""Kueue's resource types (API v1beta2, served since Kueue 0.15)."""

from __future__ import annotations

from fournos.engine.kube.resource import Resource
from fournos.engine.runtime.part import RequiredApi

GROUP = "kueue.x-k8s.io"
VERSION = "v1beta2"
KUEUE = RequiredApi("Kueue", GROUP, VERSION, "upgrade Kueue to 0.15 or newer")

WORKLOAD = Resource(GROUP, VERSION, "Workload", "workloads")
LOCAL_QUEUE = Resource(GROUP, VERSION, "LocalQueue", "localqueues")
CLUSTER_QUEUE = Resource(GROUP, VERSION, "ClusterQueue", "clusterqueues", namespaced=False)
RESOURCE_FLAVOR = Resource(GROUP, VERSION, "ResourceFlavor", "resourceflavors", namespaced=False)
ADMISSION_CHECK = Resource(GROUP, VERSION, "AdmissionCheck", "admissionchecks", namespaced=False)
WORKLOAD_PRIORITY_CLASS = Resource(
    GROUP, VERSION, "WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False
)
