"""Names, labels and fixed words of the MultiKueue adapter (Kueue's MultiKueue API and its labels page)."""

from __future__ import annotations

from fournos.queueing.managed import MULTIKUEUE as MULTIKUEUE
from fournos.queueing.managed import MULTIKUEUE_ADAPTER

CONTROLLER = MULTIKUEUE_ADAPTER
"""The `controllerName` of the AdmissionChecks that are ours; Kueue's own adapter has `MULTIKUEUE` there."""

ORIGIN_LABEL = "kueue.x-k8s.io/multikueue-origin"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
"""Label, and since Kueue 0.18 annotation, that binds an object to a Workload made before it."""

WORKLOAD_UID = "fournos.dev/multikueue-workload-uid"
"""On what we make on a worker: which Workload of the manager it belongs to."""
JOB_UID = "fournos.dev/multikueue-job-uid"
ATTEMPT = "fournos.dev/multikueue-attempt"
"""On what we make on a worker: which reservation of quota on the manager it serves; a later one is another
attempt."""

WORKER = "fournos.dev/multikueue-worker-name"
"""On what we make on a worker: the MultiKueueCluster that led there.  Two of them may lead to one cluster."""

OPT_IN = "fournos.dev/multikueue-worker"
"""Label of a FournosCluster that is to be a worker: "true"."""
MADE_FOR = "fournos.dev/multikueue-cluster"
"""On the MultiKueueCluster and Secret of a FournosCluster: its name."""
SOURCE_VERSION = "fournos.dev/source-version"
KUBECONFIG = "kubeconfig"
"""The key of a Secret that Kueue reads a worker's kubeconfig from."""

RENEW = "fournos.dev/multikueue-renew-token"
"""Label of a worker's kubeconfig Secret whose token is to be replaced before it ends: "true"."""
LOGS_OF = "fournos.dev/multikueue-logs-of"
"""Label of a Secret with a kubeconfig that only reads logs: the name of the worker's own Secret."""

WORKER_CONDITION = "workers.fournos.dev/"
"""Begins the type of an AdmissionCheck's condition about one worker: since when it can be used, or not."""
MAX_WORKERS = 10
"""Kueue 0.15 takes as many clusters in a MultiKueueConfig, and in a Workload's nominatedClusterNames."""
