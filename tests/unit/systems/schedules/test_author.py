"""Whose jobs a schedule creates: the webhook that stores the author, and the review at each fire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.decision import Facts, Present, Unknown, User, UserAccess
from fournos.engine.runtime.webhook.types import Request, Review
from fournos.systems.schedules.author import author_of, stored
from fournos.systems.schedules.author_rights import (
    CREATE,
    DELETE,
    LOCK_PRIORITY,
    STOP,
    AuthorRight,
    rights_to_create,
)
from fournos.systems.schedules.names import AUTHOR_ANNOTATION, TRIGGER_ANNOTATION
from fournos.systems.schedules.trigger import Trigger
from fournos.systems.schedules.webhooks import review
from tests.unit.systems.schedules.actors import ENGINE, LOCK_TEMPLATE, NS, schedule

ANN = User("ann", "u1", ("dev", "system:authenticated"), (("scopes", ("a", "b")),))
BOB = User("bob")


def ask(
    new: Any, old: Any = None, *, user: User = ANN, may: Any = True, also: Sequence[AuthorRight] = ()
) -> Review:
    """Reviews a write; `may`: whether the user may create jobs; `also`: the other rights of the user."""
    others = {right.question(user, NS): Present(right in also) for right in (LOCK_PRIORITY, STOP, DELETE)}
    answer = may if isinstance(may, Unknown) else Present(may)
    request = Request("CREATE" if old is None else "UPDATE", user, Key(NS, "nightly"), new, old)
    return review(request, Facts({UserAccess(user, "create", FOURNOS_JOB, NS): answer, **others}))


def of(user: User, **spec: Any) -> dict[str, Any]:
    return schedule(annotations={AUTHOR_ANNOTATION: stored(user)}, **spec)


def patched(found: Review) -> Any:
    return (found.patch.get("metadata") or {}).get("annotations")


def test_an_author_is_stored_whole() -> None:
    assert author_of(of(ANN)) == ANN and author_of(of(BOB)) == BOB
    assert patched(ask(schedule())) == {AUTHOR_ANNOTATION: stored(ANN)}


@pytest.mark.parametrize(
    "text", ["", "[]", "null", '"ann"', "{}", '{"name": "a", "groups": 3}', '{"name": "a", "extra": [1]}']
)
def test_what_is_no_author_is_none(text: str) -> None:
    assert author_of(schedule(annotations={AUTHOR_ANNOTATION: text})) is None


def test_an_author_cannot_be_forged() -> None:
    assert patched(ask(of(BOB))) == {AUTHOR_ANNOTATION: stored(ANN)}, "at creation"
    assert patched(ask(of(BOB), of(ANN))) == {AUTHOR_ANNOTATION: stored(ANN)}, "by a change of the annotation"
    assert patched(ask(schedule(), of(ANN), user=BOB)) == {AUTHOR_ANNOTATION: stored(ANN)}, "by its removal"


def test_who_may_not_create_jobs_gets_no_schedule() -> None:
    (refused,) = ask(schedule(), may=False).problems
    assert (refused.field, refused.rule) == ("spec", "author")
    assert refused.message == f"ann may not create FournosJobs in namespace {NS}, so no schedule"
    (refused,) = ask(of(ANN, timeZone="Asia/Tokyo"), of(ANN), user=BOB, may=False).problems
    assert "bob may not" in refused.message


USES: dict[AuthorRight, dict[str, Any]] = {
    LOCK_PRIORITY: {"jobTemplate": LOCK_TEMPLATE},
    STOP: {"concurrencyPolicy": "Replace"},
    DELETE: {"historyLimits": {"failed": 1}},
}
REFUSED = {
    LOCK_PRIORITY: "ann may not use WorkloadPriorityClass fournos-lock-held, so no schedule with the label "
    "kueue.x-k8s.io/priority-class of its jobs",
    STOP: f"ann may not patch FournosJobs in namespace {NS}, so no schedule with "
    "spec.concurrencyPolicy: Replace",
    DELETE: f"ann may not delete FournosJobs in namespace {NS}, so no schedule with spec.historyLimits",
}


@pytest.mark.parametrize("right", USES)
def test_a_field_takes_the_right_that_its_author_needs_without_a_schedule(right: AuthorRight) -> None:
    uses = USES[right]
    others = [other for other in USES if other is not right]
    (refused,) = ask(schedule(**uses), also=others).problems
    assert refused.message == REFUSED[right]
    assert patched(ask(schedule(**uses), also=[right])) == {AUTHOR_ANNOTATION: stored(ANN)}
    (refused,) = ask(of(BOB, **uses), of(BOB), also=others).problems
    assert refused.message == REFUSED[right], "by a change"
    assert ask(of(BOB), of(BOB, **uses)).problems == (), "a change without the field takes no right to it"


def test_who_triggers_needs_what_creating_the_jobs_takes() -> None:
    """A trigger stops and deletes nothing."""
    uses = {name: value for field in USES.values() for name, value in field.items()}
    triggered = of(ANN, **uses)
    triggered["metadata"]["annotations"][TRIGGER_ANNOTATION] = Trigger("t1").text()
    (refused,) = ask(triggered, of(ANN, **uses), user=BOB).problems
    assert "bob may not use WorkloadPriorityClass fournos-lock-held" in refused.message
    assert ask(triggered, of(ANN, **uses), user=BOB, also=[LOCK_PRIORITY]) == Review()


@pytest.mark.parametrize(
    "template", [None, "text", {"metadata": "text"}, {"metadata": []}, {"metadata": {"labels": ["a"]}}]
)
def test_rights_of_what_no_schema_has_checked(template: Any) -> None:
    assert rights_to_create({"spec": {"jobTemplate": template}}) == (CREATE,)


def test_without_an_answer_it_is_refused_for_now() -> None:
    found = ask(schedule(), may=Unknown("no answer in time"))
    assert found.transient and "no answer in time" in found.problems[0].message


def test_a_change_of_the_work_changes_the_author() -> None:
    assert patched(ask(of(ANN, timeZone="Asia/Tokyo"), of(ANN), user=BOB)) == {AUTHOR_ANNOTATION: stored(BOB)}


def test_a_pause_and_its_end_change_no_author_and_need_no_right_to_jobs() -> None:
    """Also that of the operator, which suspends a schedule of an author without the right."""
    paused = of(ANN, suspend={"reason": "a lost right"})
    for new, old in ((paused, of(ANN)), (of(ANN), paused)):
        assert ask(new, old, user=BOB, may=False) == Review()


def test_a_schedule_from_before_the_webhook_gets_its_author_at_the_next_change_of_its_work() -> None:
    assert patched(ask(schedule(timeZone="Asia/Tokyo"), schedule())) == {AUTHOR_ANNOTATION: stored(ANN)}
    assert patched(ask(of(BOB), schedule())) == {AUTHOR_ANNOTATION: stored(ANN)}, "nor can it be forged"


def test_the_operator_that_suspends_a_schedule_without_an_author_does_not_become_it() -> None:
    assert ask(schedule(suspend={"reason": "no author is stored"}), schedule()) == Review()
    assert ask(schedule(), schedule(suspend={})) == Review()


@pytest.mark.parametrize("spec", [{"schedules": ["0 0 31 2 *"]}, {"timeZone": "Europe/Bonn"}])
def test_times_that_do_not_exist_are_refused(spec: Any) -> None:
    (refused,) = ask(schedule(**spec)).problems
    assert refused.rule == "schedule"
    stored_before = of(ANN, **spec)
    assert (
        ask({**stored_before, "metadata": {**stored_before["metadata"], "labels": {}}}, stored_before)
        == Review()
    )


BOTH_MISSING = {"spec": {"executionEngine": ENGINE, "exclusive": True, "hardware": {"gpuCount": 0}}}


def test_jobs_that_cannot_be_created_are_refused_by_field() -> None:
    found = ask(schedule(jobTemplate=BOTH_MISSING))
    assert [problem.field for problem in found.problems] == ["spec.jobTemplate.spec.hardware.gpuCount"]
    assert found.problems[0].message == "write at least 1" and not found.transient
    no_cluster = {"spec": {"executionEngine": ENGINE, "exclusive": True}}
    (refused,) = ask(schedule(jobTemplate=no_cluster)).problems
    assert (refused.field, refused.rule) == ("spec.jobTemplate.spec.cluster", "exclusive-cluster")
    one_of_two = schedule(jobTemplate=no_cluster, matrix={"cluster": ["a", "B_"], "params": ["no map"]})
    assert {problem.field for problem in ask(one_of_two).problems} == {"spec.jobTemplate.spec.params"}
    varied = schedule(jobTemplate=no_cluster, matrix={"exclusive": [False, True]})
    assert [problem.rule for problem in ask(varied).problems] == ["exclusive-cluster"]
    assert ask(schedule(jobTemplate=no_cluster, matrix={"exclusive": [False]})).problems == ()


def test_a_schedule_that_was_stored_before_can_be_paused() -> None:
    before = of(ANN, jobTemplate=BOTH_MISSING)
    assert ask(of(ANN, jobTemplate=BOTH_MISSING, suspend={}), before) == Review()
    assert ask(of(ANN, jobTemplate=BOTH_MISSING, timeZone="Asia/Tokyo"), before).problems


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"params.model": "z"}, None),
        ({"hardware": {"gpuType": "a100", "gpuCount": 0}}, "spec.jobTemplate.spec.hardware.gpuCount"),
        ({"executionEngine": None}, "spec.jobTemplate.spec.executionEngine"),
        ({"clusterr": "a"}, "spec.jobTemplate.spec.clusterr"),
    ],
)
def test_a_trigger_is_checked_as_the_schedule_is(changes: Any, field: str | None) -> None:
    triggered = of(ANN)
    triggered["metadata"]["annotations"][TRIGGER_ANNOTATION] = Trigger("t1", changes).text()
    fields = [problem.field for problem in ask(triggered, of(ANN)).problems]
    assert fields == ([field] if field else [])
    later = {**triggered, "metadata": {**triggered["metadata"], "labels": {"team": "perf"}}}
    assert ask(later, triggered) == Review(), "it is checked when it is set"


def test_a_schedule_on_its_way_out_is_let_through() -> None:
    dying = schedule()
    dying["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert ask(dying, schedule(), user=BOB, may=False) == Review()
