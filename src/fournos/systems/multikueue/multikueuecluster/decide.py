"""Decides which worker to connect to, and with which version of its kubeconfig.

Kueue itself writes the status of MultiKueueClusters, so the results are reported in our AdmissionChecks.
"""

from __future__ import annotations

from datetime import datetime

from fournos.engine.kube.resource import Key, is_terminating
from fournos.engine.runtime.decision import Decision, EventRecord, Facts
from fournos.systems.multikueue.kubeconfig import version_of
from fournos.systems.multikueue.multikueuecluster.observe import Observed
from fournos.systems.multikueue.multikueuecluster.steps import Connect, Disconnect, Refuse
from fournos.systems.multikueue.names import KUBECONFIG


def decide(observed: Observed, facts: Facts, now: datetime, *, namespace: str) -> Decision:
    """Returns the next step of a connection: connect, refuse or disconnect.  Pure."""
    failure = facts.failure
    if failure is not None:
        if failure.transient:
            return Decision(retry=True)
        if isinstance(failure.step, Connect) and failure.error in ("NotFoundError", "ForbiddenError"):
            return Decision((Refuse(observed.name, failure.step.version, failure.message),), retry=True)
        return Decision(
            events=(EventRecord("Warning", failure.reason or "KubeconfigRefused", failure.message[:1024]),)
        )
    if observed.cluster is None or is_terminating(observed.cluster) or not observed.is_listed:
        return Decision((Disconnect(observed.name),) if observed.has_connection_state else ())
    source = observed.cluster["spec"].get("clusterSource") or {}
    kubeconfig = source.get("kubeConfig") or {}
    if kubeconfig.get("locationType", "Secret") != "Secret" or not kubeconfig.get("location"):
        what = (
            "clusterProfileRef"
            if source.get("clusterProfileRef")
            else f"locationType {kubeconfig.get('locationType')}"
        )
        return _refused(
            observed, "spec", f"{what} is not supported: put the kubeconfig into a Secret in {namespace}"
        )
    key = Key(namespace, str(kubeconfig["location"]))
    if observed.secret is None:
        return _refused(observed, "missing", f"there is no Secret {key}")
    if not observed.secret["hasKubeconfig"]:
        return _refused(observed, version_of(observed.secret), f"Secret {key} has no key {KUBECONFIG}")
    version = version_of(observed.secret)
    if version in (observed.connected, observed.refused):
        return Decision()
    return Decision((Connect(observed.name, key, version),))


def _refused(observed: Observed, version: str, text: str) -> Decision:
    return Decision((Refuse(observed.name, version, text),) if observed.refused != version else ())
