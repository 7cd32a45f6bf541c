"""One Workload a job: which one is kept, what is rewritten, what goes, whole outcomes compared."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.api.conditions import Condition
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.ensure import Ensured, ensure, equivalent, prebuilt_name
from fournos.engine.queueing.job import QueueInputs
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.report import finish_patch
from fournos.engine.queueing.workload import IN_USE, PodSet
from fournos.engine.runtime.decision import Create, Delete, Patch
from tests.unit.engine.queueing.toys import NOW, QUOTA, Toy, go, made

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
FINISHED = Condition("Finished", "True", "Succeeded", "")
GOING: dict[str, Any] = {"deletionTimestamp": "2030-01-01T00:00:00Z"}
CLASSES: dict[str, Obj] = {"high": {"value": 1000}, "low": {"value": 1}}
REFERENCE = {
    "apiVersion": "example.com/v1",
    "kind": "Toy",
    "name": "toy",
    "uid": "u1",
    "controller": True,
    "blockOwnerDeletion": True,
}


def found(job: Toy, *workloads: Obj, finished: bool = False, **inputs: Any) -> Ensured:
    inputs = {"workload_classes": CLASSES, **inputs}
    return ensure(job, QueueInputs(workloads=workloads, **inputs), NOW, finished=finished)


def other(*conditions: Condition, name: str = "other", **meta: Any) -> dict[str, Any]:
    """Returns a Workload of the job with other requests."""
    return made(Toy(cpu="9"), *conditions, name=name, uid=f"uid-{name}", **meta)


def gone(name: str = "other") -> Delete:
    return Delete(WORKLOAD, Key("ns", name), f"uid-{name}")


def patch(workload: Obj, **spec: Any) -> Patch:
    key = Key("ns", workload["metadata"]["name"])
    return Patch(WORKLOAD, key, {"metadata": {"resourceVersion": "3"}, "spec": spec})


def priority(name: str, value: int) -> dict[str, Any]:
    kind = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": name}
    return {"priorityClassRef": kind, "priority": value}


# --- which one is kept -----------------------------------------------------------------------------------


def test_the_one_that_fits_is_kept() -> None:
    fits = made(Toy())
    assert found(Toy(), fits) == Ensured(fits)
    assert found(Toy()) == Ensured()


def test_all_others_are_deleted_and_the_job_goes_on() -> None:
    fits, more = made(Toy()), made(Toy(), name="more", uid="uid-more")
    text = "Deleted not matching Workload: ns/other"
    outcome = found(Toy(), other(), fits, more)
    assert outcome == Ensured(steps=(gone(), gone("more")), event="DeletedWorkload", message=text)


def test_one_that_another_job_of_this_name_has_left_fits_nothing() -> None:
    left = made(Toy(), QUOTA, ownerReferences=[{**REFERENCE, "uid": "u0"}], uid="uid-other", name="other")
    assert found(Toy(), left).steps == (gone(),)


def test_the_time_limit_counts() -> None:
    limited = Toy(labels={QUEUE: "lq", "kueue.x-k8s.io/max-exec-time-seconds": "60"})
    fits = made(limited)
    assert found(limited, fits) == Ensured(fits)
    assert found(Toy(), {**fits, "status": {}}).event == "UpdatedWorkload"


def test_one_that_runs_with_less_fits_what_it_was_given() -> None:
    """Partial admission: a running job has the admitted count, a suspended one may request all again."""
    whole: dict[str, Any] = {"count": 4, "min_count": 1}
    given = made(Toy(**whole), QUOTA)
    given["status"]["admission"]["podSetAssignments"][0]["count"] = 2
    assert found(Toy(count=2, min_count=1, suspended=False), given) == Ensured(given)
    assert found(Toy(**whole), given) == Ensured(given)
    assert found(Toy(**whole, suspended=False), given).stop_first


# --- what does not fit -----------------------------------------------------------------------------------


def test_a_job_without_a_fitting_one_stops_and_gets_its_templates_back() -> None:
    holds, text = (
        other(QUOTA),
        "No matching Workload; restoring pod templates according to existent Workload",
    )
    kept: dict[str, Any] = {"event": "DeletedWorkload", "message": text}
    assert found(Toy(suspended=False), holds) == Ensured(
        steps=(gone(),), stop_first=True, restore_from=holds, **kept
    )
    two = found(Toy(suspended=False), holds, other(QUOTA, name="more"))
    assert two == Ensured(steps=(gone(), gone("more")), stop_first=True, **kept)


def test_a_finished_job_ends_with_what_it_ran_on() -> None:
    ran, more = other(QUOTA), other(QUOTA, name="more")
    assert found(Toy(), ran, more, finished=True) == Ensured(ran)


def test_a_finished_job_whose_workload_goes_lets_it_go() -> None:
    outcome = found(Toy(), other(finalizers=[IN_USE], **GOING), finished=True)
    (step,) = outcome.steps
    assert isinstance(step, Patch) and step.body["metadata"]["finalizers"] in (None, [])
    assert not outcome.stop_first


def test_one_that_goes_without_our_finalizer_is_not_there() -> None:
    assert found(Toy(), other(finalizers=[], **GOING)) == Ensured()
    going = other(**GOING)
    going["metadata"].pop("finalizers", None)
    assert found(Toy(), going) == Ensured()
    assert found(Toy(), other(finalizers=[])).steps, "it does not go"
    assert found(Toy(), other(finalizers=[IN_USE], **GOING)).steps, "our finalizer holds it"


# --- what is rewritten -----------------------------------------------------------------------------------


def test_a_waiting_one_is_rewritten_in_place() -> None:
    waiting = other()
    job = Toy(labels={QUEUE: "lq", PRIORITY: "high"})
    spec = {name: value for name, value in made(Toy())["spec"].items() if name != "priority"}
    assert found(job, waiting) == Ensured(
        steps=(patch(waiting, maximumExecutionTimeSeconds=None, **spec, **priority("high", 1000)),),
        event="UpdatedWorkload",
        message="Updated not matching Workload for suspended job: ns/other",
    )


@pytest.mark.parametrize("lasting", [QUOTA, FINISHED])
def test_one_that_holds_quota_or_has_finished_is_replaced(lasting: Condition) -> None:
    assert found(Toy(), other(lasting)).steps == (gone(),)


def test_one_of_an_earlier_job_is_replaced_and_so_is_one_whose_class_is_missing() -> None:
    replaced = Ensured(steps=(gone(),), event="DeletedWorkload", message="Deleted not matching Workload")
    earlier = other(ownerReferences=[{**REFERENCE, "uid": "u0"}])
    assert found(Toy(), earlier) == replaced
    assert found(Toy(labels={QUEUE: "lq", PRIORITY: "none"}), other()) == replaced


# --- what follows the labels -----------------------------------------------------------------------------


def with_class(name: str, *conditions: Condition, kind: str = "WorkloadPriorityClass") -> dict[str, Any]:
    workload = made(Toy(), *conditions)
    workload["spec"] |= {"priorityClassRef": {"kind": kind, "name": name}, "priority": 7}
    return workload


def test_the_queue_follows_the_label_until_quota_is_held() -> None:
    job, waiting = Toy(labels={QUEUE: "elsewhere"}), made(Toy())
    assert found(job, waiting) == Ensured(steps=(patch(waiting, queueName="elsewhere"),))
    holds = made(Toy(), QUOTA)
    assert found(job, holds) == Ensured(holds)


@pytest.mark.parametrize(
    ("label", "workload", "changes"),
    [
        ("high", made(Toy()), True),
        ("high", made(Toy(), QUOTA), False),
        ("high", with_class("low", QUOTA), True),
        ("high", with_class("high"), False),
        ("high", with_class("pods", kind="PriorityClass"), False),
        ("", with_class("low"), False),
        (
            "high",
            {**with_class("low"), "status": {"conditions": [{"type": "Finished", "status": "True"}]}},
            False,
        ),
    ],
    ids=["added", "not added to quota", "exchanged", "the same", "of pods", "no label", "finished"],
)
def test_the_priority_follows_the_label(label: str, workload: dict[str, Any], changes: bool) -> None:
    job = Toy(labels={QUEUE: "lq", **({PRIORITY: label} if label else {})})
    name = workload["metadata"]["name"]
    expected = Ensured(
        steps=(patch(workload, **priority("high", 1000)),),
        event="UpdatedWorkload",
        message=f"Updated workload priority class: ns/{name}",
    )
    assert found(job, workload) == (expected if changes else Ensured(workload))


def test_a_class_that_is_missing_changes_nothing() -> None:
    workload = with_class("low")
    assert found(Toy(labels={QUEUE: "lq", PRIORITY: "none"}), workload) == Ensured(workload)


def test_queue_and_priority_are_one_write() -> None:
    waiting = made(Toy())
    (step,) = found(Toy(labels={QUEUE: "elsewhere", PRIORITY: "low"}), waiting).steps
    assert step == patch(waiting, queueName="elsewhere", **priority("low", 1))


# --- the prebuilt one ------------------------------------------------------------------------------------


def prebuilt(*conditions: Condition, owner: Obj | None = None, cpu: str = "1", **meta: Any) -> dict[str, Any]:
    return made(Toy(cpu=cpu), *conditions, ownerReferences=[owner] if owner else [], **meta)


@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_the_name_of_the_prebuilt_one_is_a_label_or_an_annotation(where: str) -> None:
    assert prebuilt_name({"metadata": {where: {PREBUILT: "w"}}}) == "w"
    assert prebuilt_name({"metadata": {}}) == ""


def taking(workload: Obj | None, *, cpu: str = "1") -> Ensured:
    return found(Toy(cpu=cpu, labels={QUEUE: "lq", PREBUILT: "w"}), other(), prebuilt=workload)


def test_a_free_prebuilt_one_is_taken_and_keeps_its_other_owners() -> None:
    parent = {"apiVersion": "v1", "kind": "Team", "name": "t", "uid": "t1"}
    free = prebuilt(owner=parent)
    body = {
        "metadata": {
            "resourceVersion": "3",
            "labels": {"kueue.x-k8s.io/job-uid": "u1"},
            "ownerReferences": [parent, REFERENCE],
        }
    }
    step = Patch(WORKLOAD, Key("ns", free["metadata"]["name"]), body)
    assert taking(free) == Ensured(steps=(step,), message="Takes the prebuilt Workload")


def test_a_prebuilt_one_that_is_ours_is_used_unless_it_is_out_of_sync() -> None:
    ours = prebuilt(owner=REFERENCE)
    assert taking(ours) == Ensured(ours)
    text = "The prebuilt workload is out of sync with its user job"
    wrong = prebuilt(owner=REFERENCE, cpu="9")
    finished = finish_patch(wrong, "OutOfSync", text, NOW)
    assert taking(wrong) == Ensured(steps=(finished,), reason="OutOfSync", message=text)
    over = prebuilt(FINISHED, owner=REFERENCE, cpu="9")
    assert taking(over) == Ensured(over)


def test_a_prebuilt_one_of_another_or_none_is_waited_for() -> None:
    assert taking(prebuilt(owner={**REFERENCE, "uid": "u0"})) == Ensured()
    assert taking(None) == Ensured()


# --- what a Workload is made with ------------------------------------------------------------------------


def test_annotations_for_provisioning_go_along_and_no_others() -> None:
    given = {"provreq.kueue.x-k8s.io/ValidUntilSeconds": "0"}
    (step,) = go(Toy(meta={"annotations": {**given, "team": "x"}})).steps
    assert isinstance(step, Create)
    assert step.body["metadata"]["annotations"] == given
    assert step.body["metadata"]["ownerReferences"] == [REFERENCE]


# --- equivalence ------------------------------------------------------------------------------------
# Which changes of a job make its Workload unfit, by the state of both.


def template(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"containers": [container], **spec}}


def workload(
    count: int = 4, *, granted: int | None = None, admitted: bool = False, **pod_set: Any
) -> dict[str, Any]:
    """A Workload of one pod set; `granted` pods when it holds quota."""
    stored = {"name": "main", "count": count, "template": template(), **pod_set}
    conditions: list[dict[str, Any]] = []
    status: dict[str, Any] = {"conditions": conditions}
    if granted is not None:
        conditions.append({"type": "QuotaReserved", "status": "True"})
        status["admission"] = {"podSetAssignments": [{"name": "main", "count": granted}]}
    if admitted:
        conditions.append({"type": "Admitted", "status": "True"})
    return {"spec": {"podSets": [stored]}, "status": status}


def fits(
    stored: dict[str, Any],
    *,
    count: int = 4,
    suspended: bool = True,
    min_count: int | None = None,
    limit: int | None = None,
    **spec: Any,
) -> bool:
    pod_set = PodSet("main", count, template(**spec), min_count=min_count)
    return equivalent([pod_set], limit, stored, suspended=suspended)


@pytest.mark.parametrize(
    ("count", "suspended", "expected"),
    [
        (2, False, True),  # it runs with what it was granted
        (2, True, True),  # about to start with it
        (4, True, True),  # not started yet: the number in its spec is still the whole one
        (4, False, False),  # runs with more pods than it was granted
        (3, True, False),  # neither the granted nor the asked number
    ],
)
def test_after_partial_admission_the_full_count_fits_only_while_suspended(
    count: int, suspended: bool, expected: bool
) -> None:
    stored = workload(4, granted=2, minCount=1)
    assert fits(stored, count=count, suspended=suspended, min_count=1) is expected


def test_without_partial_admission_the_granted_count_is_not_taken() -> None:
    assert fits(workload(4, granted=2), count=4, suspended=False)
    assert not fits(workload(4, granted=2), count=2, suspended=False)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [(workload(), False), (workload(granted=4), False), (workload(granted=4, admitted=True), True)],
    ids=["waiting", "quota reserved", "admitted"],
)
def test_tolerations_count_until_admission(stored: dict[str, Any], expected: bool) -> None:
    assert fits(stored, tolerations=[{"key": "gpu", "operator": "Exists"}]) is expected


def test_another_time_limit_does_not_fit() -> None:
    stored = workload()
    assert not fits(stored, limit=60)
    stored["spec"]["maximumExecutionTimeSeconds"] = 60
    assert fits(stored, limit=60)
    assert not fits(stored)


def test_requests_count_by_value_and_the_number_of_pod_sets_counts() -> None:
    assert fits(workload(), cpu="1000m")
    assert not fits(workload(), cpu="2")
    assert not equivalent([], None, workload(), suspended=True)


def test_a_workload_without_a_count_has_one_pod() -> None:
    stored = workload(1)
    del stored["spec"]["podSets"][0]["count"]
    assert fits(stored, count=1) and not fits(stored, count=2)


@pytest.mark.parametrize(
    "extra",
    [{"terminationMessagePolicy": "File"}, {"workingDir": None}, {"ports": []}],
    ids=["a default of the API server", "null", "empty"],
)
def test_what_the_api_server_fills_in_changes_nothing(extra: dict[str, Any]) -> None:
    stored = workload()
    stored["spec"]["podSets"][0]["template"]["spec"]["containers"][0] |= extra
    assert fits(stored)
    stored["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["workingDir"] = "/w"
    assert not fits(stored)
