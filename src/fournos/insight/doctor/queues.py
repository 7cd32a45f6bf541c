"""Checks of the queues that lead from the namespace of the jobs to clusters.  Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final

from fournos.engine.api.conditions import condition
from fournos.engine.kube.errors import KubeError, NotFoundError
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.queues import DISPATCHERS
from fournos.engine.queueing.quotas import covered
from fournos.insight.doctor.facts import DoctorFacts
from fournos.insight.doctor.finding import DoctorFinding, Level, unreadable
from fournos.insight.doctor.namespaces import labels_of, selected
from fournos.insight.values import count, name_of, one_line, spec_of
from fournos.systems.jobs.names import SLOT_RESOURCE

AREA: Final = "Queues"
QUEUE_VARIABLE: Final = "FOURNOS_KUEUE_LOCAL_QUEUE_NAME"
PROVISIONING: Final = "kueue.x-k8s.io/provisioning-request"
_CONFIG: Final = "config/kueue-config.yaml"


def check_queues(facts: DoctorFacts) -> Iterator[DoctorFinding]:
    namespace, queue_name = facts.place.namespace, facts.place.queue
    if isinstance(facts.local_queues, KubeError):
        yield unreadable(AREA, "LocalQueues", facts.local_queues)
        return
    if queue_name not in map(name_of, facts.local_queues):
        text = f"namespace {namespace} has no such queue, and jobs without one of their own wait for it"
        fix = f"make it, as in manifests/deployment.yaml, or name another: {QUEUE_VARIABLE}"
        yield DoctorFinding(AREA, f"LocalQueue {queue_name}", Level.FAULT, text, fix)
    for queue in facts.local_queues:
        above = str(spec_of(queue).get("clusterQueue") or "")
        yield _queue("LocalQueue", queue, f"leads to ClusterQueue {above}")
    for name, found in facts.cluster_queues.items():
        yield from _cluster_queue(name, found, facts)


def _cluster_queue(name: str, cluster_queue: Obj | KubeError, facts: DoctorFacts) -> Iterator[DoctorFinding]:
    what = f"ClusterQueue {name}"
    if isinstance(cluster_queue, NotFoundError):
        yield DoctorFinding(AREA, what, Level.FAULT, "it does not exist", f"kubectl apply -f {_CONFIG}")
        return
    if isinstance(cluster_queue, KubeError):
        yield unreadable(AREA, what, cluster_queue)
        return
    groups = spec_of(cluster_queue).get("resourceGroups") or ()
    flavors = list(dict.fromkeys(str(one["name"]) for group in groups for one in group.get("flavors") or ()))
    yield _queue("ClusterQueue", cluster_queue, count(len(flavors), "flavor"))
    resources = set(covered(cluster_queue))
    if SLOT_RESOURCE not in resources:
        text = f"it does not cover {SLOT_RESOURCE}: no FournosJob can be admitted"
        fix = f"add {SLOT_RESOURCE} to its coveredResources, as in {_CONFIG}"
        yield DoctorFinding(AREA, what, Level.FAULT, text, fix)
    yield from _let_in(what, cluster_queue, facts)
    yield from _migrations(what, cluster_queue, resources)
    yield from _two_checks(what, cluster_queue, facts)
    if not isinstance(facts.flavors, KubeError):
        yield from _missing(what, flavors, map(name_of, facts.flavors))


def _let_in(what: str, queue: Obj, facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Checks that the queue selects the jobs' namespace; a queue without a selector selects none."""
    selector = spec_of(queue).get("namespaceSelector")
    if not isinstance(facts.namespace, Mapping):
        return
    if selector is None or not selected(selector, labels_of(facts)):
        namespace = facts.place.namespace
        wanted = ((selector or {}).get("matchLabels") or {"fournos.dev/queue-access": "true"}).items()
        pairs = " ".join(f"{name}={value}" for name, value in wanted)
        text = f"its namespaceSelector does not select namespace {namespace}"
        yield DoctorFinding(AREA, what, Level.FAULT, text, f"kubectl label ns/{namespace} {pairs}")


def _migrations(what: str, queue: Obj, covered: Container[str]) -> Iterator[DoctorFinding]:
    """Warns of a concurrentAdmissionPolicy that lets Kueue (0.18 and newer) move a run to another flavor."""
    mode = ((spec_of(queue).get("concurrentAdmissionPolicy") or {}).get("migration") or {}).get("mode")
    if mode is None or SLOT_RESOURCE not in covered:
        return
    fix = f"remove it: kubectl edit clusterqueue {name_of(queue)}"
    if mode == "RetainFirstAdmission":
        text = "its concurrentAdmissionPolicy makes a Workload for each cluster, untried with FournosJobs"
        yield DoctorFinding(AREA, what, Level.WARNING, text, fix)
        return
    text = "its flavors are clusters, and its concurrentAdmissionPolicy stops a run to move it to another"
    yield DoctorFinding(AREA, what, Level.FAULT, text, fix)


def _two_checks(what: str, queue: Obj, facts: DoctorFacts) -> Iterator[DoctorFinding]:
    """Finds a queue with checks for both provisioning and dispatch.

    Kueue 0.16 and newer deactivate it; before, no worker gets what was provisioned.
    """
    if isinstance(facts.admission_checks, KubeError):
        return
    checks = (spec_of(queue).get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    named = {str(check.get("name")) for check in checks}
    controllers = {
        spec_of(one).get("controllerName") for one in facts.admission_checks if name_of(one) in named
    }
    if PROVISIONING in controllers and controllers & DISPATCHERS:
        text = "it has an AdmissionCheck of a ProvisioningRequest beside one of MultiKueue"
        fix = "let the workers' ClusterQueues provision: take that check out of this one"
        yield DoctorFinding(AREA, what, Level.FAULT, text, fix)


def _missing(what: str, wanted: Iterable[str], there: Iterable[str]) -> Iterator[DoctorFinding]:
    known = set(there)
    for flavor in wanted:
        if flavor not in known:
            fix = f"make the ResourceFlavor, or take {flavor} out of the ClusterQueue"
            yield DoctorFinding(AREA, what, Level.FAULT, f"ResourceFlavor {flavor} does not exist", fix)


def _queue(kind: str, queue: Obj, text: str) -> DoctorFinding:
    what = f"{kind} {name_of(queue)}"
    policy = spec_of(queue).get("stopPolicy") or "None"
    if policy != "None":
        fix = f"set its stopPolicy to None: kubectl edit {kind.lower()} {name_of(queue)}"
        return DoctorFinding(AREA, what, Level.FAULT, f"it is stopped (stopPolicy {policy})", fix)
    active = condition(queue, "Active") or {}
    if active.get("status") == "True":
        return DoctorFinding(AREA, what, Level.OK, f"active, {text}")
    if not active:
        fix = "see whether Kueue runs: kubectl get pods -n kueue-system"
        return DoctorFinding(AREA, what, Level.WARNING, "Kueue has not looked at it", fix)
    why = f"{active.get('reason')}: {one_line(active.get('message'))}"
    return DoctorFinding(AREA, what, Level.FAULT, f"not active: {why}", "make what the message names")
