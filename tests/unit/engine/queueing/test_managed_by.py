"""Jobs that another cluster runs, and jobs inside jobs."""

from __future__ import annotations

from typing import Any

from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.job import Ended, QueueInputs, QueueOutcome, Verdict, managed_elsewhere
from fournos.engine.queueing.reconcile import reconcile
from fournos.engine.runtime.decision import (
    Answer,
    Create,
    Facts,
    LiveList,
    NeededFacts,
    Present,
    Unknown,
    attempt,
)
from tests.unit.engine.queueing.test_reconcile import (
    ADMITTED,
    FLAVOR,
    NOW,
    QUOTA,
    Toy,
    go,
    made,
    patch_of,
)
from tests.unit.engine.queueing.toys import Managed


def test_the_field() -> None:
    assert managed_elsewhere({"managedBy": "kueue.x-k8s.io/multikueue"})
    assert not managed_elsewhere({"managedBy": "example.com/other"})
    assert not managed_elsewhere({})


def test_it_gets_a_workload_that_needs_no_release_here() -> None:
    found = go(Managed())
    assert found.verdict is Verdict.ELSEWHERE
    (step,) = found.steps
    assert isinstance(step, Create)
    assert "finalizers" not in step.body["metadata"]


def test_its_admission_starts_nothing() -> None:
    found = go(Managed(), made(Managed(), QUOTA, ADMITTED))
    assert (found.verdict, len(found.steps)) == (Verdict.ELSEWHERE, 1)
    assert patch_of(found).subresource == "status"  # PodsReady, as the mirrored status has it


def test_the_mirrored_end_is_declared() -> None:
    found = go(Managed(ended=Ended(True, "done")), made(Managed(), QUOTA, ADMITTED))
    assert found.verdict is Verdict.ELSEWHERE
    assert patch_of(found).body["status"]["conditions"][-1]["reason"] == "Succeeded"


def test_on_the_worker_it_is_a_job_like_any_other() -> None:
    assert go(Managed(by=None)).verdict is Verdict.WAITING


# --- inside another job ------------------------------------------------------------------------------------

OWNER = {"apiVersion": "example.com/v1", "kind": "Box", "name": "box", "uid": "b1", "controller": True}


def owned() -> Toy:
    return Toy(meta={"ownerReferences": [OWNER]})


def workload_of_owner(*, admitted: bool) -> Obj:
    flags = [{"type": "Admitted", "status": str(admitted)}]
    return {"metadata": {"name": "box", "ownerReferences": [OWNER]}, "status": {"conditions": flags}}


def asked(job: Toy, answer: Answer) -> Any:
    """Runs a pass with an empty cache; the Workloads of the owner are read live."""
    inputs = QueueInputs(flavors={"f": FLAVOR})
    need = attempt(reconcile, job, inputs, Facts(), NOW)
    assert isinstance(need, NeededFacts)
    (question,) = need.questions
    assert question == LiveList(question.resource, "ns", "kueue.x-k8s.io/job-uid=b1")  # type: ignore[union-attr]
    return reconcile(job, inputs, Facts({question: answer}), NOW)


def test_a_cache_that_lags_makes_no_second_workload() -> None:
    found = asked(owned(), Present((workload_of_owner(admitted=True),)))
    assert isinstance(found, QueueOutcome)
    assert (found.verdict, found.steps) == (Verdict.NESTED, ())


def test_an_owner_that_is_not_queued_does_not_count() -> None:
    (step,) = asked(owned(), Present(())).steps
    assert isinstance(step, Create)


def test_while_that_is_unknown_nothing_is_made() -> None:
    found = asked(owned(), Unknown("no answer"))
    assert (found.verdict, found.steps, found.retry) == (Verdict.BLOCKED, (), True)
