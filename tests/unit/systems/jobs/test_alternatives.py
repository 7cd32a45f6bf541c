"""Which of its GPUs a waiting job asks for, as tables over the quota that is free."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE
from fournos.engine.runtime.decision import Absent, Answer, Create, Decision, LiveGet, Patch, Present, Unknown
from fournos.systems.jobs.build import requests_of
from fournos.systems.jobs.observe import Observer, project_queue, watches
from fournos.systems.jobs.queue import CHOOSING_AT_MOST, free_quota, free_to
from fournos.systems.jobs.status import FreeQuota
from tests.unit.systems.jobs.actors import NS
from tests.unit.systems.jobs.passes import a_job, condition_of, decided, pending, queued, true, written
from tests.unit.systems.jobs.test_decide import JOB, SETTINGS, caches
from tests.unit.systems.jobs.test_resolving import ENGINE, QUEUES, resolver

CHOICES = {
    "gpuType": "h200",
    "gpuCount": 2,
    "alternatives": [{"gpuType": "a100", "gpuCount": 4}, {"gpuType": "l40", "gpuCount": 8}],
}
SPEC: dict[str, Any] = {"exclusive": False, "hardware": CHOICES}
"""On cluster-1, as `a_job` has it."""
SLOTS = {"fournos/cluster-slot": 5}
H200, A100, L40 = "fournos/gpu-h200", "fournos/gpu-a100", "fournos/gpu-l40"


def cluster(**gpus: int) -> dict[str, Decimal]:
    """Returns what is free in one flavor: slots, and GPUs by their short names."""
    named = {f"fournos/gpu-{kind}": number for kind, number in gpus.items()}
    return {name: Decimal(number) for name, number in (SLOTS | named).items()}


QUEUE = LiveGet(LOCAL_QUEUE, Key(NS, SETTINGS.kueue_local_queue_name))
FOUND = Present({"spec": {"clusterQueue": "cq"}})


def with_free(
    *workloads: Obj, free: Any = (), others: Any = (), queue: Answer = FOUND, **changes: Any
) -> Decision:
    """Returns a pass of a queued job; `free` is of its own ClusterQueue, `others` are of other ones."""
    quotas = (
        FreeQuota("cq", "", {flavor: quotas for each in free for flavor, quotas in each.items()}),
        *others,
    )
    return pending(*workloads, free_quota=quotas, answers={QUEUE: queue}, **changes)


def asked(decision: Decision) -> dict[str, str]:
    """Returns the GPUs of the Workload that the decision creates or rewrites; {} if it leaves it as it is."""
    for step in decision.steps:
        if isinstance(step, Create):
            return gpus_of(step.body)
        if isinstance(step, Patch) and "podSets" in step.body.get("spec", {}):
            return gpus_of(step.body)
    return {}


def gpus_of(workload: Obj) -> dict[str, str]:
    requests = requests_of(workload["spec"]["podSets"][0]["template"])
    return {name: amount for name, amount in requests.items() if "gpu" in name}


@pytest.mark.parametrize(
    ("free", "gpus"),
    [
        ((), {H200: "2"}),
        (({"c1": cluster(h200=2, a100=4)},), {H200: "2"}),
        (({"c1": cluster(h200=1, a100=4)},), {A100: "4"}),
        (({"c1": cluster(h200=1, a100=3, l40=8)},), {L40: "8"}),
        (({"c1": cluster(h200=1)}, {"c2": cluster(a100=4)}), {A100: "4"}),
        (({"c1": cluster(a100=4) | {"fournos/cluster-slot": Decimal(0)}},), {H200: "2"}),
        (({"c1": cluster(h200=1), "c2": cluster(h200=1)},), {H200: "2"}),
    ],
    ids=["nothing", "first", "second", "third", "elsewhere", "no slot", "not in one cluster"],
)
def test_a_new_workload_asks_for_the_first_that_are_free(free: Any, gpus: dict[str, str]) -> None:
    assert asked(with_free(free=free, cluster=None, **SPEC)) == gpus


def test_only_the_cluster_of_the_job_counts() -> None:
    free = ({"cluster-1": cluster(a100=4), "cluster-2": cluster(h200=2)},)
    assert asked(with_free(free=free, **SPEC)) == {A100: "4"}
    assert asked(with_free(free=free, cluster=None, **SPEC)) == {H200: "2"}


@pytest.mark.parametrize(
    ("queue", "gpus"),
    [(FOUND, {A100: "4"}), (Absent(), {H200: "2"}), (Unknown("timeout"), {H200: "2"})],
    ids=["own queue", "no queue", "not known"],
)
def test_only_the_cluster_queue_of_the_job_counts(queue: Answer, gpus: dict[str, str]) -> None:
    others = (FreeQuota("foreign", "", {"cluster-1": cluster(h200=8)}),)
    own = ({"cluster-1": cluster(a100=4)},)
    assert asked(with_free(free=own, others=others, queue=queue, **SPEC)) == gpus


def test_without_free_gpus_anywhere_no_queue_is_read() -> None:
    free = (FreeQuota("cq", "", {"cluster-1": cluster(h200=1)}),)
    assert asked(pending(free_quota=free, answers={}, **SPEC)) == {H200: "2"}


PENDING = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "insufficient quota"}


def test_a_waiting_workload_is_rewritten_when_others_become_free_and_back() -> None:
    workload = queued(PENDING, **SPEC)
    assert gpus_of(workload) == {H200: "2"}
    assert asked(with_free(workload, free=({"cluster-1": cluster(h200=1)},), **SPEC)) == {}, "nothing is free"
    changed = with_free(workload, free=({"cluster-1": cluster(a100=4)},), **SPEC)
    (step,) = changed.steps
    assert isinstance(step, Patch) and asked(changed) == {A100: "4"}
    assert step.body["metadata"]["resourceVersion"] == "3", "Kueue may reserve quota meanwhile"
    rewritten = {**workload, "spec": {**workload["spec"], **step.body["spec"]}}
    assert asked(with_free(rewritten, free=(), **SPEC)) == {}, "it keeps what it asks for"
    assert asked(with_free(rewritten, free=({"cluster-1": cluster(h200=2)},), **SPEC)) == {H200: "2"}


def test_a_job_whose_priority_class_is_gone_keeps_its_place() -> None:
    workload = queued(PENDING, **SPEC)
    workload["spec"] |= {"priorityClassRef": {"name": "urgent"}, "priority": 5}
    free = ({"cluster-1": cluster(a100=4)},)
    assert with_free(workload, free=free, priority="urgent", **SPEC).steps == ()
    assert asked(with_free(workload, free=free, priority="urgent", priority_value=5, **SPEC)) == {A100: "4"}


def test_reserved_quota_is_kept_while_admission_checks_last() -> None:
    reserved = queued(true("QuotaReserved"), cluster="cluster-1", **SPEC)
    found = with_free(reserved, free=({"cluster-1": cluster(a100=4)},), **SPEC)
    assert found.steps == ()


def test_what_holds_quota_stays_and_the_status_names_it() -> None:
    free = ({"cluster-1": cluster(h200=2, a100=4)},)
    workload = queued(true("QuotaReserved"), true("Admitted"), cluster="cluster-1", **SPEC)
    template = workload["spec"]["podSets"][0]["template"]
    requests: dict[str, str] = {**requests_of(template), A100: "4"}
    del requests[H200]
    template["spec"]["containers"][0]["resources"]["requests"] = requests
    claimed = with_free(workload, free=free, status={"resolved": {"secretRefs": ["s"]}}, **SPEC)
    assert claimed.steps == () and written(claimed, "phase", "cluster") == ("Admitted", "cluster-1")
    resolved = {"secretRefs": ["s"], "hardware": {"gpuType": "a100", "gpuCount": 4}}
    assert written(claimed, "resolved") == (resolved,)
    assert condition_of(claimed, "WorkloadAdmitted")[0] == "True"


def test_a_prebuilt_workload_decides_on_a_worker() -> None:
    """The manager has chosen; to ask for other GPUs would end the job as out of sync."""
    label = {"kueue.x-k8s.io/prebuilt-workload-name": "job"}
    workload = queued(PENDING, **SPEC)
    found = with_free(
        workload,
        meta={"labels": label},
        prebuilt=workload,
        free=({"cluster-1": cluster(a100=4)},),
        **SPEC,
    )
    assert asked(found) == {}


def test_a_worker_needs_only_the_gpus_that_the_manager_has_chosen() -> None:
    job = {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "job"}}
    workload = queued(PENDING, **SPEC)
    for covered, phase in (({H200}, "Pending"), ({A100, L40}, "Failed")):
        found = decided(
            a_job("Resolving", status={"resolved": None}, meta=job, **ENGINE, **SPEC),
            workloads=(workload,),
            prebuilt=workload,
            resolve_jobs=(resolver(("Complete", "")),),
            gpu_resources=frozenset(covered),
            answers={QUEUES: Present(())},
        )
        assert written(found, "phase") == (phase,)


def test_a_foreign_workload_without_requests_breaks_nothing() -> None:
    workload = queued(**SPEC)
    template = workload["spec"]["podSets"][0]["template"]
    template["spec"]["containers"] = [{"name": "c"}]
    assert requests_of(template) == {}


# --- free quota ---------------------------------------------------------------------------------------------


def a_queue(name: str, cohort: str = "", used: int = 0, **gpus: int) -> dict[str, Any]:
    resources = [
        {"name": f"fournos/gpu-{kind}", "nominalQuota": str(number)} for kind, number in gpus.items()
    ]
    usage = [{"name": H200, "total": str(used)}, {"name": "of an old quota", "total": "1"}]
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": {
            "resourceGroups": [
                {"coveredResources": list(gpus), "flavors": [{"name": "c1", "resources": resources}]}
            ],
            **({"cohortName": cohort} if cohort else {}),
        },
        "status": {"flavorsReservation": [{"name": "c1", "resources": usage}, {"name": "gone"}]},
    }


def test_reserved_quota_is_not_free() -> None:
    assert free_quota(a_queue("q", used=3, h200=8, a100=1)) == {"c1": {H200: 5, A100: 1}}
    assert free_quota({"metadata": {}}) == {}


def test_the_queues_of_a_cohort_lend_to_each_other() -> None:
    def quota(name: str, cohort: str, number: int) -> FreeQuota:
        return FreeQuota(name, cohort, {"c1": {H200: Decimal(number)}})

    quotas = (quota("alone", "", 1), quota("a", "team", 3), quota("b", "team", -1), quota("other", "x", 9))
    assert free_to("alone", quotas) == {"c1": {H200: 1}}
    assert free_to("a", quotas) == free_to("b", quotas) == {"c1": {H200: 2}}
    assert free_to("unknown", quotas) == {}


@pytest.mark.parametrize("quota", [None, "a lot"])
def test_a_queue_that_cannot_be_read_has_nothing_free(quota: Any) -> None:
    wrong = a_queue("q", h200=1)
    (resource,) = wrong["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    resource.pop("nominalQuota") if quota is None else resource.update(nominalQuota=quota)
    assert project_queue(wrong)["free"] == {}


def stored_job(name: str, hardware: Any, phase: str, *, created: str = "", **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": JOB.namespace, "uid": name + phase, "resourceVersion": "1"}
    status = {"phase": phase}
    times = {"creationTimestamp": created} if created else {}
    return {"metadata": {**meta, **times}, "spec": {"hardware": hardware, **spec}, "status": status}


def test_only_a_waiting_job_with_a_choice_observes_what_is_free() -> None:
    observe = Observer(SETTINGS)
    for hardware, phase, observed in (
        (CHOICES, "Pending", (FreeQuota("q", "", {"c1": {H200: Decimal(2)}}),)),
        (CHOICES, "", (FreeQuota("q", "", {"c1": {H200: Decimal(2)}}),)),
        (CHOICES, "Running", ()),
        ({"gpuType": "h200", "gpuCount": 2}, "Pending", ()),
    ):
        stored = caches(stored_job(JOB.name, hardware, phase))
        stored[CLUSTER_QUEUE].replace([project_queue(a_queue("q", h200=2))], "1")
        found = observe(stored, JOB)
        assert found is not None and found.free_quota == observed, (hardware, phase)


def test_quota_that_becomes_free_wakes_the_jobs_that_choose() -> None:
    wakes = next(watch.wakes for watch in watches(SETTINGS) if watch.resource is CLUSTER_QUEUE)
    jobs = [
        stored_job("chooses", CHOICES, "Pending"),
        stored_job("is-dispatched", CHOICES, ""),
        stored_job("runs", CHOICES, "Running"),
        stored_job("waits", {"gpuType": "h200", "gpuCount": 2}, "Pending"),
        stored_job("held", CHOICES, "Pending", suspend=True),
    ]
    woken = wakes(project_queue(a_queue("q")), caches(*jobs))
    assert sorted(key.name for key in woken) == ["chooses", "is-dispatched"]


def test_only_the_oldest_jobs_choose_at_once() -> None:
    wakes = next(watch.wakes for watch in watches(SETTINGS) if watch.resource is CLUSTER_QUEUE)
    numbers = range(CHOOSING_AT_MOST + 5)
    jobs = [
        stored_job(f"j{number:03}", CHOICES, "Pending", created=f"2030-01-01T12:00:{59 - number:02}Z")
        for number in numbers
    ]
    woken = wakes(project_queue(a_queue("q")), caches(*jobs))
    assert [key.name for key in woken] == [f"j{number:03}" for number in reversed(numbers[5:])]
