"""Decides whether a FournosCluster is a worker, and keeps the copy of its kubeconfig up to date."""

from __future__ import annotations

from datetime import datetime

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.resource import SECRET, Key, Obj, is_terminating, key_of, uid_of
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Decision,
    EventRecord,
    Facts,
    LiveGet,
    Present,
    SecretShape,
)
from fournos.engine.runtime.steps import CopySecret, Create, Delete, Patch, Step
from fournos.systems.multikueue import names
from fournos.systems.multikueue.fournoscluster.build import copy_metadata, secret_name, worker_of
from fournos.systems.multikueue.fournoscluster.observe import KubeconfigSource, Observed, is_ours
from fournos.systems.multikueue.fournoscluster.steps import CheckKubeconfig
from fournos.systems.multikueue.kinds import MULTIKUEUE_CLUSTER


def decide(observed: Observed, facts: Facts, now: datetime, *, namespace: str) -> Decision:
    """Returns the next steps for a FournosCluster.  Pure."""
    failure = facts.failure
    if failure is not None:
        if failure.transient or observed.cluster is None:
            return Decision(retry=True)
        text = f"not a worker: {failure.message}"[:1024]
        # A refused kubeconfig is checked again when its Secret changes.
        return Decision(
            events=(EventRecord("Warning", failure.reason or failure.error, text),),
            retry=not isinstance(failure.step, CheckKubeconfig),
        )
    if not observed.is_worker:
        return _gone(observed, facts)
    if observed.source is None or not observed.source.has_kubeconfig:
        return Decision()
    name = observed.key.name
    if observed.worker is None:
        return Decision(
            (
                CheckKubeconfig(observed.source.key),
                Create(MULTIKUEUE_CLUSTER, worker_of(name), own_label=names.MADE_FOR),
            )
        )
    if is_terminating(observed.worker) or not is_ours(observed.worker, name):
        return Decision()
    if _copied(observed.worker) == observed.source.version:
        copy = facts.require(SecretShape(Key(namespace, secret_name(name))))
        if not isinstance(copy, Absent):
            return Decision(_renewal(observed, observed.source, copy, namespace))
    return Decision(
        (
            CheckKubeconfig(observed.source.key),
            CopySecret(
                observed.source.key,
                copy_metadata(observed.worker, namespace, renewed=observed.source.renewed),
            ),
            # The last step, because it records that the copy is complete.
            Patch(
                MULTIKUEUE_CLUSTER,
                key_of(observed.worker),
                {"metadata": {"annotations": {names.SOURCE_VERSION: observed.source.version}}},
            ),
        )
    )


def _renewal(observed: Observed, source: KubeconfigSource, copy: Answer, namespace: str) -> tuple[Step, ...]:
    """Returns the patch of the label by which the token in the copy is replaced before it expires.

    A separate step is needed, because an update of the data by `CopySecret` keeps the labels of the copy.
    """
    name = observed.key.name
    if not isinstance(copy, Present) or copy.value.labels.get(names.MADE_FOR) != name:
        return ()
    label = "true" if source.renewed else None
    if copy.value.labels.get(names.RENEW) == label:
        return ()
    body = {"metadata": {"uid": copy.value.uid, "labels": {names.RENEW: label}}}
    return (Patch(SECRET, Key(namespace, secret_name(name)), body),)


def _gone(observed: Observed, facts: Facts) -> Decision:
    """Removes a worker: deletes its MultiKueueCluster, and Kubernetes deletes the Secret that it owns."""
    if (
        observed.worker is None
        or not is_ours(observed.worker, observed.key.name)
        or is_terminating(observed.worker)
    ):
        return _note_too_many(observed)
    # A live read: the deletion takes the worker out of service, so a stale cache must not decide.
    answer = facts.require(LiveGet(FOURNOS_CLUSTER, observed.key))
    if observed.cluster is None and not isinstance(answer, Absent):
        return Decision(retry=True)  # the cache does not show it yet
    step = Delete(MULTIKUEUE_CLUSTER, key_of(observed.worker), uid_of(observed.worker))
    return Decision((step,), events=_note_too_many(observed).events)


def _note_too_many(observed: Observed) -> Decision:
    if not observed.too_many:
        return Decision()
    text = f"not a worker: Kueue takes {names.MAX_WORKERS} at most, and so many come before it by name"
    return Decision(events=(EventRecord("Warning", "TooManyWorkers", text),))


def _copied(worker: Obj) -> str:
    """Returns the version of the source of which the worker's Secret is a complete copy, or ""."""
    return str((worker["metadata"].get("annotations") or {}).get(names.SOURCE_VERSION) or "")
