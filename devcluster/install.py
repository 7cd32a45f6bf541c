"""Installs Tekton and Kueue as pods, or Kueue as a process, and waits until they are ready, with webhooks."""

from __future__ import annotations

from collections.abc import Callable

from devcluster import components, manifests, namespaces
from devcluster.binaries import Built
from devcluster.components import Layout
from devcluster.errors import ComponentFailedError
from devcluster.kubectl import Kubectl, await_established, wait_until
from devcluster.manifests import KUEUE_NAMESPACE
from devcluster.progress import Progress
from devcluster.state import Record

TEKTON_NAMESPACE = "tekton-pipelines"
POD_COMPONENTS = {
    "coredns": ("kube-system", "coredns"),
    "tekton-controller": (TEKTON_NAMESPACE, "tekton-pipelines-controller"),
    "tekton-webhook": (TEKTON_NAMESPACE, "tekton-pipelines-webhook"),
    "kueue": (KUEUE_NAMESPACE, "kueue-controller-manager"),
}
"""Component → namespace and name of its Deployment."""

_TEKTON_PROBE = """
apiVersion: tekton.dev/v1
kind: Task
metadata: {name: devcluster-probe, namespace: default}
spec: {steps: [{name: probe, image: busybox, script: "true"}]}
"""
_KUEUE_PROBE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: devcluster-probe}
spec: {}
"""


def apply_part(kubectl: Kubectl, part: str, objects: str, progress: Progress) -> None:
    with progress.step(f"Applying {part}", usual="5 s"):
        kubectl.apply(objects)
        # A component that starts next may run API discovery only once, at its start.
        await_established(kubectl.words(), environment=kubectl.environment)


def await_part(
    kubectl: Kubectl,
    part: str,
    progress: Progress,
    *,
    limit: float = 240.0,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Waits for `tekton`, `kueue` or `coredns`. Raises ComponentFailedError with the pods' state and logs."""
    namespace = {"tekton": TEKTON_NAMESPACE, "kueue": KUEUE_NAMESPACE, "coredns": "kube-system"}[part]
    with progress.step(f"Waiting for {part}", usual="15 s"):
        try:
            wait_until(
                f"{part} available",
                lambda: kubectl.deployments_available(namespace),
                limit=limit,
                every=0.5,
                meanwhile=meanwhile,
            )
            if part != "coredns":
                await_webhook(kubectl, part, limit=60.0, meanwhile=meanwhile)
        except ComponentFailedError:
            raise
        except Exception as error:
            raise ComponentFailedError(part, str(error), log_tail=_diagnosis(kubectl, namespace)) from None


def start_kueue(
    record: Record,
    layout: Layout,
    kubectl: Kubectl,
    built: Built,
    *,
    meanwhile: Callable[[], None],
) -> None:
    """Starts Kueue as a process with the configuration of the record's spec.

    Returns when the API server reaches its webhook.  Raises DevclusterError.
    """
    rendered = built.kueue_manifests.read_text()
    (record.directory / "kueue.yaml").write_text(
        manifests.kueue_process_configuration(rendered, record.spec.kueue_config, layout.pki)
    )
    namespaces.start(record, "kueue", components.kueue_process(layout))
    await_webhook(kubectl, "kueue", limit=90, meanwhile=meanwhile)


def await_webhook(
    kubectl: Kubectl, part: str, *, limit: float, meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Waits until the API server accepts a dry-run creation.

    A ready pod is not enough: the API server may not reach its webhook yet.
    """
    probe = _TEKTON_PROBE if part == "tekton" else _KUEUE_PROBE
    wait_until(f"{part} accepting objects", lambda: kubectl.accepts(probe), limit=limit, meanwhile=meanwhile)


def _diagnosis(kubectl: Kubectl, namespace: str) -> str:
    pods = kubectl.run("-n", namespace, "get", "pods", "-o", "wide", check=False).stdout
    events = kubectl.run("-n", namespace, "get", "events", "--sort-by=.lastTimestamp", check=False).stdout
    logs = kubectl.run(
        "-n",
        namespace,
        "logs",
        "--all-containers",
        "--tail=15",
        "--selector=",
        "--ignore-errors",
        check=False,
    ).stdout
    return "\n".join([pods, *events.splitlines()[-10:], *logs.splitlines()[-15:]])
