"""Names, labels and constants of the MultiKueue adapter (Kueue's MultiKueue API and its labels page)."""

from __future__ import annotations

from fournos.engine.queueing.job import MULTIKUEUE as MULTIKUEUE
from fournos.engine.queueing.job import MULTIKUEUE_ADAPTER
from fournos.engine.queueing.job import ORIGIN_LABEL as ORIGIN_LABEL

CONTROLLER = MULTIKUEUE_ADAPTER
"""The `controllerName` of this adapter's AdmissionChecks; that of Kueue's own adapter is `MULTIKUEUE`."""

PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
"""Label, and since Kueue 0.18 annotation, that binds an object to an existing Workload."""

WORKLOAD_UID = "fournos.dev/multikueue-workload-uid"
"""Annotation of objects on a worker: the UID of the manager cluster's Workload."""
JOB_UID = "fournos.dev/multikueue-job-uid"
ATTEMPT = "fournos.dev/multikueue-attempt"
"""Annotation of objects on a worker: the quota reservation on the manager cluster that they belong to.

A later reservation is another attempt.
"""

WORKER = "fournos.dev/multikueue-worker-name"
"""Annotation of objects on a worker: the MultiKueueCluster through which they were created.

Two MultiKueueClusters may refer to the same cluster.
"""

KUBECONFIG = "kubeconfig"
"""The key of a Secret from which Kueue reads a worker's kubeconfig."""

LOGS_OF = "fournos.dev/multikueue-logs-of"
"""Label of a Secret whose kubeconfig only reads logs: the name of the worker's own Secret."""

WORKER_CONDITION = "workers.fournos.dev/"
"""Prefix of the type of an AdmissionCheck's condition for one worker.

Its lastTransitionTime is the time since which the worker is usable, or unusable.
"""
MAX_CONDITIONS = 16
"""The maximum of conditions in the status of an AdmissionCheck."""
MAX_WORKERS = 20
"""The maximum of clusters in a MultiKueueConfig, and of a Workload's nominatedClusterNames.

Of Kueue 0.16 and newer; the CRDs of 0.15 allow 10 in both.
"""
