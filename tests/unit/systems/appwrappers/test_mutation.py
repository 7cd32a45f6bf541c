"""What the webhook of AppWrappers sets at creation, and what it warns of."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Facts,
    NeededFacts,
    Present,
    Unknown,
    attempt,
)
from fournos.engine.runtime.webhook.review import Review
from fournos.systems.appwrappers.names import MANAGER
from fournos.systems.appwrappers.part import appwrapper_webhooks, default, label_value
from fournos.systems.appwrappers.settings import AppWrapperSettings
from tests.unit.systems.appwrappers.actors import (
    job_template,
    pod_template,
    wrapper,
)
from tests.unit.systems.appwrappers.reviews import LOCAL, patch, refusals, request_for, reviewed

QUEUE = "kueue.x-k8s.io/queue-name"


def unqueued(**spec: Any) -> dict[str, Any]:
    new = wrapper(pod_template("p"), queue=None)
    return {**new, "spec": {**new["spec"], **spec}}


def test_labels_name_the_user_whatever_they_had_before() -> None:
    new = unqueued()
    new["metadata"]["labels"]["workload.codeflare.dev/user"] = "somebody-else"
    assert patch(new) == {
        "metadata": {
            "labels": {"workload.codeflare.dev/user": "alice", "workload.codeflare.dev/userid": "u-1"}
        }
    }


@pytest.mark.parametrize(
    ("queued", "changes", "there", "expected"),
    [
        # Whose Workloads Kueue makes, those its own webhook suspends.
        (True, {}, False, (None, None)),
        (False, {"default_queue_name": "std"}, False, ("std", None)),
        (False, {"manage_jobs_without_queue_name": True}, False, (None, None)),
        (True, {"workloads": "own"}, False, (None, True)),
        (False, {"workloads": "own"}, False, (None, True)),
        (False, {"workloads": "own"}, True, ("default", True)),
        (False, {"workloads": "own", "default_queue_name": "std"}, True, ("std", True)),
        (False, {"workloads": "own", "manage_jobs_without_queue_name": False}, False, (None, None)),
    ],
)
def test_the_queue_and_whether_it_waits(
    queued: bool, changes: dict[str, Any], there: bool, expected: tuple[str | None, bool | None]
) -> None:
    new = wrapper(pod_template("p")) if queued else unqueued(suspend=False)
    new["spec"]["suspend"] = False
    found = patch(new, queue=LOCAL if there else Absent(), **changes)
    assert (found["metadata"]["labels"].get(QUEUE), found.get("spec", {}).get("suspend")) == expected


@pytest.mark.parametrize("expected", [None, MANAGER, "somebody.example/else"])
@pytest.mark.parametrize(
    ("check", "workloads", "elsewhere"),
    [
        ("kueue.x-k8s.io/multikueue", "own", True),
        ("fournos.dev/multikueue", "own", True),
        ("kueue.x-k8s.io/provisioning-request", "own", False),
        ("", "own", False),
        ("kueue.x-k8s.io/multikueue", "kueue", False),  # Kueue's own webhook sets it
    ],
)
def test_a_queue_that_leads_to_other_clusters_sets_managed_by(
    check: str, workloads: str, elsewhere: bool, expected: str | None
) -> None:
    new = wrapper(pod_template("p"))
    new["spec"] |= {"managedBy": expected} if expected else {}
    found = patch(new, check=check, workloads=workloads).get("spec", {})
    wanted = elsewhere and expected != "somebody.example/else"
    assert found.get("managedBy") == ("kueue.x-k8s.io/multikueue" if wanted else None)


def test_what_cannot_be_learnt_about_the_queue_is_asked_again() -> None:
    new, own = wrapper(pod_template("p")), AppWrapperSettings(workloads="own")
    need = attempt(default, request_for(new), Facts(), settings=own)
    assert isinstance(need, NeededFacts)
    found = default(request_for(new), Facts({need.questions[0]: Unknown("down")}), settings=own)
    assert isinstance(found, Review) and found.transient and "other clusters" in found.problems[0].message


def test_a_default_queue_that_cannot_be_looked_for_is_no_way_past_the_queues() -> None:
    own = AppWrapperSettings(workloads="own")
    need = attempt(default, request_for(unqueued()), Facts(), settings=own)
    assert isinstance(need, NeededFacts)
    found = default(request_for(unqueued()), Facts({need.questions[0]: Unknown("down")}), settings=own)
    assert isinstance(found, Review) and found.transient and found.problems


def test_pod_sets_are_written_where_kueue_knows_none() -> None:
    group = {"size": 3, "workerTemplate": pod_template()}
    group_set = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "l"},
        "spec": {"replicas": 2, "leaderWorkerTemplate": group},
    }
    roles = {"Launcher": {"template": pod_template()}, "Worker": {"replicas": 4, "template": pod_template()}}
    mpi = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "m"},
        "spec": {"mpiReplicaSpecs": roles},
    }
    new = wrapper(group_set, mpi, pod_template("p"))
    after = [one.get("podSets") for one in patch(new)["spec"]["components"]]
    assert after == [
        [{"path": "template.spec.leaderWorkerTemplate.workerTemplate", "replicas": 6}],
        [
            {"path": "template.spec.mpiReplicaSpecs.Launcher.template", "replicas": 1},
            {"path": "template.spec.mpiReplicaSpecs.Worker.template", "replicas": 4},
        ],
        None,
    ]
    # What is set is admitted, and set once.
    made = {**new, "spec": {**new["spec"], **patch(new)["spec"]}}
    assert refusals(made) == [] and "spec" not in patch(made)


def test_probable_mistakes_are_warned_of() -> None:
    def message(
        name: str = "w",
        template: Any = None,
        there: Answer = Absent(),  # noqa: B008
    ) -> list[str]:
        new = wrapper(template or pod_template("p"), name=name)
        found = reviewed(request_for(new), there=there)
        assert not found.problems
        return list(found.warnings)

    assert "cannot be queued" in message("a.b")[0] and "cannot be queued" in message("n" * 62)[0]
    job = job_template("j")
    (line,) = message(template={**job, "spec": {**job["spec"], "suspend": True}})
    assert "never runs" in line
    (line,) = message(there=Absent(no_kind=True))
    assert line.startswith("spec.components[0]: this cluster serves no Pod of v1: install its Custom")
    (line,) = message(there=Unknown("no", forbidden=True))
    assert "the operator has no right to get pods: grant get, list, watch, create and delete" in line
    assert 'label workload.codeflare.dev/wrapped: "true"' in line
    (line,) = message(there=Present({}))
    assert "there is a Pod p already" in line
    assert message(there=Unknown("slow")) == []
    generated = {**pod_template("p"), "metadata": {"generateName": "p-"}}
    assert message(template=generated, there=Present({})) == []
    (line,) = message(template=generated, there=Absent(no_kind=True))


def test_mutating_first_and_both_firm() -> None:
    mutating, validating = appwrapper_webhooks(AppWrapperSettings())
    assert mutating.configuration < "kueue-mutating-webhook-configuration"
    assert {mutating.failure_policy, validating.failure_policy} == {"Fail"}
    assert (mutating.operations, validating.operations) == (("CREATE",), ("CREATE", "UPDATE"))


def test_user_labels_are_label_values() -> None:
    assert label_value("system:serviceaccount:ns:sa") == "system_serviceaccount_ns_sa"
    assert label_value("-" + "a" * 70 + "@x") == "a" * 62
