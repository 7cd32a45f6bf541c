"""Admission of configured kinds, as tables over the review."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fournos.engine.api.conditions import Condition, upsert
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.queueing.kinds import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    WORKLOAD,
)
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Facts,
    LiveGet,
    LiveList,
    NeededFacts,
    Present,
    Unknown,
    User,
    attempt,
)
from fournos.engine.runtime.webhook.review import Request, Review
from fournos.systems.frameworks.build import requests_of
from fournos.systems.frameworks.kinds import PIPELINE_RUN, Framework
from fournos.systems.frameworks.rules import review, webhooks
from tests.unit.systems.frameworks.actors import FOO_KIND, NS, foo, pipeline_run
from tests.world.server import VirtualClock, clone, merge

HOLD = {"metadata": {"annotations": {"fournos.dev/held": "queue"}}, "spec": {"status": "PipelineRunPending"}}
WHERE = "spec.taskRunTemplate.podTemplate"
LATE_KIND = Framework.model_validate(
    {
        "name": "Late.v1.example.com",
        "hold": {"path": "spec.suspend"},
        "requests": {"default": {"cpu": 1}},
        "finished": [{"condition": "Complete"}],
    }
)


def plain(name: str = "run", **spec: Any) -> dict[str, Any]:
    """As a user writes it."""
    run = pipeline_run(name, held=False, pending=False)
    run["metadata"] |= {"uid": "u1"}
    run["spec"] |= spec
    return run


def cluster_queue(*flavors: str, checks: tuple[str, ...] = ()) -> dict[str, Any]:
    group = {
        "coveredResources": ["tekton.dev/pipelineruns"],
        "flavors": [{"name": name} for name in flavors],
    }
    spec: dict[str, Any] = {"resourceGroups": [group]}
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    return {"metadata": {"name": "cq"}, "spec": spec}


def flavor(name: str, labels: Mapping[str, str] | None = None, *tolerations: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"nodeLabels": dict(labels or {}), "tolerations": list(tolerations)},
    }


class World:
    """Answers from a few objects; counts the rounds."""

    def __init__(self, *objects: tuple[Resource, Obj], unknown: Resource | None = None) -> None:
        self.objects = {
            (kind, Key(one["metadata"].get("namespace", ""), one["metadata"]["name"])): one
            for kind, one in objects
        }
        self.unknown = unknown
        self.rounds = 0

    def answer(self, question: Any) -> Answer:
        if question.resource == self.unknown:
            return Unknown("no answer")
        if isinstance(question, LiveList):
            return Present(tuple(one for (kind, _), one in self.objects.items() if kind == question.resource))
        assert isinstance(question, LiveGet)
        found = self.objects.get((question.resource, question.key))
        return Present(found) if found is not None else Absent()

    def review(self, new: Obj, old: Obj | None = None, framework: Framework = PIPELINE_RUN) -> Review:
        request = Request(
            "CREATE" if old is None else "UPDATE", User("alice"), Key(NS, new["metadata"]["name"]), new, old
        )
        facts = Facts()
        while True:
            found = attempt(review, request, facts, framework=framework)
            if isinstance(found, Review):
                return found
            assert isinstance(found, NeededFacts)
            self.rounds += 1
            assert self.rounds <= 3, "the server asks no more often"
            facts = Facts({**facts.answers, **{one: self.answer(one) for one in found.questions}})


LQ = (LOCAL_QUEUE, {"metadata": {"name": "lq", "namespace": NS}, "spec": {"clusterQueue": "cq"}})


def queue(*flavors: Any, checks: Mapping[str, str] | None = None, **kwargs: Any) -> World:
    """lq → cq with these flavors and admission checks (name → controller)."""
    found = flavors or (flavor("default"),)
    return World(
        LQ,
        (
            CLUSTER_QUEUE,
            cluster_queue(*(one["metadata"]["name"] for one in found), checks=tuple(checks or ())),
        ),
        *((RESOURCE_FLAVOR, one) for one in found),
        *(
            (ADMISSION_CHECK, {"metadata": {"name": name}, "spec": {"controllerName": controller}})
            for name, controller in (checks or {}).items()
        ),
        **kwargs,
    )


def workload(*conditions: Condition) -> tuple[Resource, Obj]:
    found: list[Any] = []
    for one in conditions:
        found = upsert(found, one, now=VirtualClock().now())
    meta = {
        "name": "w",
        "namespace": NS,
        "ownerReferences": [{"uid": "u1", "controller": True, "kind": "PipelineRun", "name": "run"}],
    }
    return WORKLOAD, {"metadata": meta, "status": {"conditions": found}}


# --- creation ----------------------------------------------------------------------------------------


def test_what_names_no_queue_is_left_alone() -> None:
    run = plain()
    run["metadata"]["labels"] = {}
    assert World().review(run) == Review()


def test_a_queued_run_is_held_with_an_annotation() -> None:
    world = queue()
    assert world.review(plain()).patch == HOLD
    assert world.rounds == 3


@pytest.mark.parametrize("held", [True, False])
def test_a_hold_that_is_there_stays_as_it_is(held: bool) -> None:
    assert queue().review(pipeline_run(held=held)).patch == {}


def test_a_run_that_is_made_cancelled_stays_so() -> None:
    assert queue().review(plain(status="Cancelled")).patch == {}


def test_an_invented_kind_is_held_in_its_own_way() -> None:
    cq = cluster_queue("default")
    world = World(LQ, (CLUSTER_QUEUE, cq), (RESOURCE_FLAVOR, flavor("default")))
    found = world.review(foo(suspend=False), framework=FOO_KIND)
    assert found.patch["spec"] == {"suspend": True}
    assert queue().review(foo(), framework=FOO_KIND).patch["metadata"]["annotations"]  # users hold it so, too


@pytest.mark.parametrize("controller", ["kueue.x-k8s.io/multikueue", "fournos.dev/multikueue"])
def test_managed_by_is_set_where_the_queue_leads_to_other_clusters(controller: str) -> None:
    world = queue(flavor("f", {"pool": "a"}), checks={"other": "example.com/x", "mk": controller})
    patch = world.review(plain()).patch
    assert patch["spec"] == {"status": "PipelineRunPending", "managedBy": "kueue.x-k8s.io/multikueue"}
    own = queue(checks={"mk": controller}).review(plain(managedBy="tekton.dev/pipeline")).patch
    assert "managedBy" not in own["spec"]


def test_managed_by_is_left_alone_elsewhere() -> None:
    assert queue(checks={"other": "example.com/x"}).review(plain()).patch == HOLD


def test_a_queue_that_is_not_there_holds_and_warns() -> None:
    found = World().review(plain())
    assert found.patch == HOLD and "'lq' is not there" in found.warnings[0]


@pytest.mark.parametrize("kind", [LOCAL_QUEUE, CLUSTER_QUEUE, ADMISSION_CHECK])
def test_what_cannot_be_learnt_is_refused_for_now(kind: Resource) -> None:
    found = queue(checks={"mk": "kueue.x-k8s.io/multikueue"}, unknown=kind).review(plain())
    assert found.problems and found.transient


def test_what_runs_on_its_owners_quota_is_not_held() -> None:
    run = plain()
    api_version = "workload.codeflare.dev/v1beta2"
    owner = {"apiVersion": api_version, "kind": "AppWrapper", "name": "aw", "uid": "u1", "controller": True}
    run["metadata"]["ownerReferences"] = [owner]
    world = queue()
    assert world.review(run).patch == HOLD
    for component, conditions, hold in (
        ("run", [ADMITTED], {}),
        ("run", [], HOLD),
        ("another", [ADMITTED], HOLD),
    ):
        annotations = {"fournos.dev/component": f"tekton.dev/v1/PipelineRun/{component}"}
        pod_set = {"name": "p", "template": {"metadata": {"annotations": annotations}}}
        foreign = {**workload(*conditions)[1], "spec": {"podSets": [pod_set]}}
        foreign["metadata"] = {**foreign["metadata"], "ownerReferences": [owner]}
        nested = queue()
        nested.objects[(WORKLOAD, Key(NS, "w"))] = foreign
        assert nested.review(run).patch == hold
        changed = queue()
        changed.objects[(WORKLOAD, Key(NS, "w"))] = foreign
        waiting = clone(held())
        waiting["metadata"] |= {"uid": "u2", "ownerReferences": [owner]}
        assert bool(changed.review(released(waiting), waiting).problems) == bool(hold)


@pytest.mark.parametrize(
    ("name", "text"), [("fournos.dev/requests", "cpu=lots"), ("kueue.konflux-ci.dev/requests-cpu", "lots")]
)
def test_requests_that_cannot_be_read_are_refused(name: str, text: str) -> None:
    run = plain()
    run["metadata"]["annotations"] = {name: text}
    (problem,) = queue().review(run).problems
    assert f"annotation {name}: " in problem.message and "'lots' is not a quantity" in problem.message


KONFLUX = {"kueue.konflux-ci.dev/requests-cpu": "4", "kueue.konflux-ci.dev/requests-memory": "8Gi"}


@pytest.mark.parametrize(
    ("framework", "annotations", "requests"),
    [
        (PIPELINE_RUN, KONFLUX, {"tekton.dev/pipelineruns": 1, "cpu": "4", "memory": "8Gi"}),
        (PIPELINE_RUN, KONFLUX | {"fournos.dev/requests": "cpu=1"}, {"cpu": "1"}),
        (LATE_KIND, KONFLUX, {"cpu": 1}),
    ],
)
def test_requests_in_the_annotations_of_konflux(
    framework: Framework, annotations: Any, requests: Any
) -> None:
    run = plain()
    run["metadata"]["annotations"] = annotations
    assert requests_of(framework, run) == requests


# --- placement at creation ---------------------------------------------------------------------------

TOLERATION = {"key": "gpu", "operator": "Exists"}


def test_the_one_flavor_of_a_queue_is_followed() -> None:
    patch = queue(flavor("f", {"pool": "a"}, TOLERATION)).review(plain()).patch
    assert patch["spec"]["taskRunTemplate"]["podTemplate"] == {
        "nodeSelector": {"pool": "a"},
        "tolerations": [TOLERATION],
    }


def test_what_the_user_has_chosen_stays() -> None:
    template = {"podTemplate": {"nodeSelector": {"zone": "z"}, "tolerations": [{"key": "x"}]}}
    run = plain(taskRunTemplate=template)
    patched = merge(clone(run), queue(flavor("f", {"pool": "a"}, TOLERATION)).review(run).patch)
    assert patched["spec"]["taskRunTemplate"]["podTemplate"] == {
        "nodeSelector": {"zone": "z", "pool": "a"},
        "tolerations": [{"key": "x"}, TOLERATION],
    }


def test_one_of_several_flavors_is_chosen_by_the_user() -> None:
    two = (flavor("a", {"pool": "a"}), flavor("b", {"pool": "b"}))
    found = queue(*two).review(plain())
    assert found.patch == HOLD and "several flavors" in found.warnings[0] and WHERE in found.warnings[0]
    run = plain(taskRunTemplate={"podTemplate": {"nodeSelector": {"pool": "b"}}})
    assert queue(*two).review(run) == Review(patch=HOLD)
    wrong = plain(taskRunTemplate={"podTemplate": {"nodeSelector": {"pool": "c"}}})
    (problem,) = queue(*two).review(wrong).problems
    assert "fits no flavor of the queue (a, b)" in problem.message


# --- changes -----------------------------------------------------------------------------------------

ADMITTED = Condition("Admitted", "True", "Admitted", "")


def held(**annotations: str) -> dict[str, Any]:
    run = pipeline_run(**annotations)
    run["metadata"]["uid"] = "u1"
    return run


def released(run: dict[str, Any]) -> dict[str, Any]:
    after = clone(run)
    del after["spec"]["status"]
    return after


def test_it_cannot_be_released_before_the_queue() -> None:
    (problem,) = World(workload()).review(released(held()), held()).problems
    assert "has not admitted it yet" in problem.message
    assert World(workload(ADMITTED)).review(released(held()), held()) == Review()
    over = workload(ADMITTED, Condition("Finished", "True", "Failed", ""))
    assert World(over).review(released(held()), held()).problems
    assert World(unknown=WORKLOAD).review(released(held()), held()).transient


def test_another_s_admission_lets_nothing_go() -> None:
    """The prebuilt Workload must be this run's own: its label names any."""
    for uid, refused in (("u9", True), ("u1", False)):
        resource, found = workload(ADMITTED)
        owner = {"uid": uid, "controller": True, "kind": "PipelineRun", "name": "run"}
        foreign = {**found, "metadata": {**found["metadata"], "ownerReferences": [owner]}}
        run = held()
        run["metadata"]["labels"] |= {"kueue.x-k8s.io/prebuilt-workload-name": "w"}
        assert bool(World((resource, foreign)).review(released(run), run).problems) == refused


def test_it_may_be_cancelled_at_any_time() -> None:
    after = held()
    after["spec"]["status"] = "Cancelled"
    assert World().review(after, held()) == Review()


def test_a_users_own_hold_becomes_the_queues_when_he_lets_it_go() -> None:
    before = pipeline_run(held=False)
    found = World().review(released(before), before)
    assert found.patch == HOLD and "waits in queue 'lq' now" in found.warnings[0]


def test_the_queues_hold_is_not_taken_over() -> None:
    after = held()
    after["metadata"]["annotations"] = {}
    assert "the queue that holds it" in World().review(after, held()).problems[0].message
    given = pipeline_run(held=False)
    assert World().review(held(), given) == Review()


def test_a_queue_name_stays() -> None:
    def to(queue: str | None, run: dict[str, Any]) -> dict[str, Any]:
        after = clone(run)
        after["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
        return after

    running = released(held())
    assert World().review(to(None, held()), held()).problems
    assert World().review(to("other", held()), held()) == Review()
    assert "while it runs" in World().review(to("other", running), running).problems[0].message
    done = clone(running)
    done["status"] = {"conditions": [{"type": "Succeeded", "status": "True"}]}
    assert World().review(to(None, done), done) == Review()


def test_a_dispatched_run_is_not_ours_to_judge() -> None:
    run = held()
    run["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    assert World().review(released(run), run) == Review()


# --- the table of webhooks ---------------------------------------------------------------------------


def test_one_webhook_a_kind() -> None:
    found = webhooks((PIPELINE_RUN, FOO_KIND))
    assert [one.path for one in found] == ["/mutate-tekton-dev-v1-pipelinerun", "/mutate-example-com-v1-foo"]
    assert {one.configuration for one in found} == {"fournos-frameworks"}
    assert {one.failure_policy for one in found} == {"Fail"}  # it protects
