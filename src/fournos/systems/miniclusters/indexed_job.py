"""The Indexed Job with one pod per broker.

A failed command ends the Job; its exit code is not retried. Pods that were killed are replaced. The Job has
succeeded when the lead broker has.
"""

from __future__ import annotations

from typing import Any, Final

from fournos.engine.kube.resource import JOB
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.cluster import Cluster

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
