"""The webhook that lets a pod write the FournosJob which it is of, and no other."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from time import process_time
from typing import Any

import pytest

from fournos.api.kinds import PIPELINE_RUN, TASK_RUN
from fournos.engine.kube.resource import JOB, POD, Key, Resource
from fournos.engine.runtime.decision import (
    Absent,
    Facts,
    LiveGet,
    NeededFacts,
    Present,
    Unknown,
    User,
    attempt,
)
from fournos.engine.runtime.webhook.registration import Service, configurations
from fournos.engine.runtime.webhook.review import Request, Review
from fournos.systems.jobs.own_job import (
    POD_NAME,
    POD_UID,
    believed,
    difference,
    fits,
    job_of_pod,
    job_webhooks,
    review,
)
from fournos.systems.jobs.settings import JobSettings

NS = "bench"
World = dict[tuple[Resource, str], dict[str, Any]]


def obj(kind: Resource, name: str, owner: tuple[Resource, str] | None = None, **fields: Any) -> Any:
    meta: dict[str, Any] = {"name": name, "namespace": NS, "uid": f"uid-{name}"}
    if owner:
        above, of = owner
        reference = {"apiVersion": above.api_version, "kind": above.kind, "name": of, "uid": f"uid-{of}"}
        meta["ownerReferences"] = [{**reference, "controller": True}]
    return {"metadata": meta, **fields}


FJOB = Resource("fournos.dev", "v1", "FournosJob", "fournosjobs")
CONTAINER = {"name": "resolve", "image": "engine:1", "args": ["go"]}
TOKEN = {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
VICTIM = obj(FJOB, "victim", status={"attempts": [{"number": 1, "pipelineRun": "victim"}]})


def world() -> World:
    found = {
        (POD, "victim-run-pod"): obj(POD, "victim-run-pod", (TASK_RUN, "victim-run"), spec={}),
        (TASK_RUN, "victim-run"): obj(
            TASK_RUN,
            "victim-run",
            (PIPELINE_RUN, "victim"),
            spec={"taskRef": {"name": "run", "kind": "Task"}},
            status={"podName": "victim-run-pod"},
        ),
        (PIPELINE_RUN, "victim"): obj(
            PIPELINE_RUN,
            "victim",
            (FJOB, "victim"),
            status={
                "childReferences": [{"name": "victim-run", "pipelineTaskName": "run"}],
                "pipelineSpec": {"tasks": [{"name": "run", "taskRef": {"name": "run", "kind": "Task"}}]},
            },
        ),
        (POD, "resolve-pod"): obj(
            POD,
            "resolve-pod",
            (JOB, "victim-resolve"),
            spec={"containers": [{**CONTAINER, "volumeMounts": [TOKEN]}], "volumes": [{"name": "token"}]},
        ),
        (JOB, "victim-resolve"): obj(
            JOB,
            "victim-resolve",
            (FJOB, "victim"),
            spec={"template": {"spec": {"containers": [CONTAINER]}}},
        ),
    }
    return deepcopy(found)


def review_of(
    pod: str,
    there: World,
    *,
    uid: str = "",
    job: Any = VICTIM,
    account: str = "default",
    extra: Any = None,
    unknown: bool = False,
) -> Review:
    claims = {POD_NAME: pod, POD_UID: uid or f"uid-{pod}"} if extra is None else extra
    user = User(
        account if ":" in account else f"system:serviceaccount:{NS}:{account}",
        extra=tuple((name, (value,)) for name, value in sorted(claims.items())),
    )
    facts, rounds = Facts(), 0
    while isinstance(
        found := attempt(review, Request("UPDATE", user, Key(NS, "victim"), job, job), facts), NeededFacts
    ):
        rounds += 1
        assert rounds <= 3, "the server asks no more often"
        answers = dict(facts.answers)
        for question in found.questions:
            assert isinstance(question, LiveGet)
            value = there.get((question.resource, question.key.name))
            answers[question] = Unknown("no") if unknown else Present(value) if value else Absent()
        facts = Facts(answers)
    return found


@pytest.mark.parametrize("pod", ["victim-run-pod", "resolve-pod"])
def test_a_pod_of_the_job_may_write_it(pod: str) -> None:
    assert review_of(pod, world()) == Review()


def test_a_pod_of_another_job_may_not() -> None:
    other = obj(FJOB, "other", status={"attempts": [{"number": 1, "pipelineRun": "victim"}]})
    for pod in ("victim-run-pod", "resolve-pod"):
        (problem,) = review_of(pod, world(), job=other).problems
        assert "the FournosJob of its own pod only" in problem.message


NEITHER = "neither of a run nor of a resolver"
UNLIKE_ITS_JOB = "does not run what Job"


def changed(kind: Resource, name: str, part: str, **fields: Any) -> Callable[[World], None]:
    return lambda there: there[kind, name].setdefault(part, {}).update(fields)


def owner_changed(pod: str, **fields: str) -> Callable[[World], None]:
    return lambda there: there[POD, pod]["metadata"]["ownerReferences"][0].update(fields)


def resolver_changed(part: str, *more: Any) -> Callable[[World], None]:
    """The spec of the resolver's pod has more in this list."""
    return lambda there: there[POD, "resolve-pod"]["spec"].setdefault(part, []).extend(more)


def container_changed(**fields: Any) -> Callable[[World], None]:
    return lambda there: there[POD, "resolve-pod"]["spec"]["containers"][0].update(fields)


def another_run(there: World) -> None:
    run, task = there[PIPELINE_RUN, "victim"], there[TASK_RUN, "victim-run"]
    there[PIPELINE_RUN, "mine"] = {**run, "metadata": {**run["metadata"], "name": "mine", "uid": "uid-mine"}}
    there[TASK_RUN, "victim-run"] = {
        **obj(TASK_RUN, "victim-run", (PIPELINE_RUN, "mine"), spec=task["spec"]),
        "status": {"podName": "victim-run-pod"},
    }


EVIL = {"name": "x", "image": "evil"}
OTHER_GROUP = {"apiVersion": "example.com/v1"}
FORGED_TASK: dict[str, tuple[Callable[[World], Any], str]] = {
    "owned by a TaskRun that has another pod": (
        changed(TASK_RUN, "victim-run", "status", podName="another"),
        "has another pod",
    ),
    "of a TaskRun that its run does not know": (
        lambda there: there[PIPELINE_RUN, "victim"].update(status={}),
        "does not know TaskRun",
    ),
    "of a TaskRun of somebody else that Tekton has adopted": (
        lambda there: there[TASK_RUN, "victim-run"].update(spec={"taskSpec": {"steps": [EVIL]}}),
        "is not what PipelineRun victim runs: its taskRef differs",
    ),
    "of an earlier TaskRun of the name": (
        changed(TASK_RUN, "victim-run", "metadata", uid="newer"),
        "is not there",
    ),
    "of a run by another name": (another_run, "is not a run of FournosJob victim"),
    "owned by a TaskRun of another group": (owner_changed("victim-run-pod", **OTHER_GROUP), NEITHER),
    "owned by another kind of Tekton": (owner_changed("victim-run-pod", kind="CustomRun"), NEITHER),
}
FORGED_RESOLVER: dict[str, tuple[Callable[[World], Any], str]] = {
    "with another image than the resolver": (container_changed(image="evil"), UNLIKE_ITS_JOB),
    "with one container more": (resolver_changed("containers", EVIL), UNLIKE_ITS_JOB),
    "with a script of another's": (
        resolver_changed("volumes", {"name": "x", "configMap": {"name": "x"}}),
        UNLIKE_ITS_JOB,
    ),
    "with a container before it": (resolver_changed("initContainers", EVIL), UNLIKE_ITS_JOB),
    "with a container for debugging": (resolver_changed("ephemeralContainers", EVIL), UNLIKE_ITS_JOB),
    "with a file over another of its own": (
        container_changed(volumeMounts=[TOKEN, {"name": "x", "mountPath": "/usr/bin"}]),
        UNLIKE_ITS_JOB,
    ),
    "owned by a Job of another group": (owner_changed("resolve-pod", **OTHER_GROUP), NEITHER),
    "owned by another kind of the resolver's group": (owner_changed("resolve-pod", kind="CronJob"), NEITHER),
    "of nobody": (changed(POD, "resolve-pod", "metadata", ownerReferences=[]), NEITHER),
}
FORGED = {
    **{case: ("victim-run-pod", *row) for case, row in FORGED_TASK.items()},
    **{case: ("resolve-pod", *row) for case, row in FORGED_RESOLVER.items()},
}


@pytest.mark.parametrize("case", FORGED)
def test_a_pod_that_only_names_owners_may_not(case: str) -> None:
    pod, forge, scene = FORGED[case]
    there = world()
    forge(there)
    (problem,) = review_of(pod, there).problems
    assert scene in problem.message


@pytest.mark.parametrize("status", [{}, None, {"attempts": [{"number": 2, "pipelineRun": "victim-r2"}]}])
def test_a_run_that_the_status_does_not_name_is_not_of_the_job(status: Any) -> None:
    (problem,) = review_of("victim-run-pod", world(), job=obj(FJOB, "victim", status=status)).problems
    assert "is not a run of FournosJob victim" in problem.message


def test_a_token_without_a_pod_or_of_another_namespace_may_not() -> None:
    assert "the token is not a pod's" in review_of("victim-run-pod", world(), extra={}).problems[0].message
    assert (
        "the token is not a pod's"
        in review_of("x", world(), extra={POD_NAME: "resolve-pod"}).problems[0].message
    )
    unknown = review_of("victim-run-pod", world(), account="system:serviceaccount:other:default")
    assert "another namespace" in unknown.problems[0].message
    assert "is not there" in review_of("resolve-pod", world(), uid="older").problems[0].message


def test_what_cannot_be_learnt_is_refused_for_now() -> None:
    found = review_of("resolve-pod", world(), unknown=True)
    assert found.problems and found.transient


def test_who_is_asked_about() -> None:
    webhooks = job_webhooks(JobSettings(namespace=NS))
    ((_, body),) = configurations(webhooks, Service(NS, "s"), owner=NS).items()
    assert body["metadata"]["name"] == "fournos-jobs-bench"
    entries = {entry["name"]: entry for entry in body["webhooks"]}
    entry = entries["own-job.fournos.dev"]
    assert entry["rules"][0]["resources"] == ["fournosjobs", "fournosjobs/status"]
    assert entry["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": NS}}
    assert entry["failurePolicy"] == "Fail"


def job_found(pod: str, there: World, *, namespace: str = NS, uid: str = "") -> Any:
    claims = {POD_NAME: pod, POD_UID: uid or f"uid-{pod}"} if pod else {}
    user = User(
        f"system:serviceaccount:{namespace}:default",
        extra=tuple((key, (value,)) for key, value in claims.items()),
    )
    facts = Facts()
    while isinstance(found := attempt(job_of_pod, user, facts), NeededFacts):
        answers = dict(facts.answers)
        for question in found.questions:
            assert isinstance(question, LiveGet)
            value = there.get((question.resource, question.key.name))
            here = value is not None and question.key.namespace == NS
            answers[question] = Present(value) if here else Absent()
        facts = Facts(answers)
    return found


def with_job() -> World:
    return {**world(), (FJOB, "victim"): deepcopy(VICTIM)}


def test_the_job_of_a_pod_is_found_from_its_token() -> None:
    assert job_found("victim-run-pod", with_job()) == VICTIM


@pytest.mark.parametrize(
    ("pod", "because"), [("resolve-pod", "is of no TaskRun"), ("", "the token is not a pod's")]
)
def test_a_pod_of_no_run_has_no_job(pod: str, because: str) -> None:
    assert because in job_found(pod, with_job())
    assert "is not there" in job_found("victim-run-pod", with_job(), uid="earlier")
    assert "is not there" in job_found("victim-run-pod", with_job(), namespace="other")


@pytest.mark.parametrize("case", sorted(FORGED))
def test_a_forged_chain_has_no_job(case: str) -> None:
    pod, forge, _ = FORGED[case]
    there = with_job()
    forge(there)
    assert not isinstance(job_found(pod, there), dict)


# --- task runs -----------------------------------------------------------------------------------------
# A TaskRun is one of a PipelineRun if it runs what Tekton makes of the run's Pipeline.

STEP = {"name": "main", "image": "bench", "script": "run $(params.model) $(tasks.prepare.results.port) now"}
SECRET = {"name": "vault-secrets", "projected": {"sources": []}}
UID = "0b29e4f5-7a3c-4f0e-9a44-1d1b5ac4c0de"
RUN: dict[str, Any] = {
    "metadata": {"name": "victim", "uid": UID},
    "spec": {
        "workspaces": [
            {"name": "artifacts", "volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}},
            {"name": "code", "configMap": {"name": "code"}},
        ],
        "taskRunTemplate": {"serviceAccountName": "pipeline", "podTemplate": {"volumes": [SECRET]}},
        "taskRunSpecs": [
            {"pipelineTaskName": "run", "timeout": "1h", "podTemplate": {"nodeSelector": {"gpu": "yes"}}}
        ],
    },
    "status": {
        "childReferences": [
            {"kind": "TaskRun", "name": "victim-run", "pipelineTaskName": "run"},
            {"kind": "TaskRun", "name": "victim-inline", "pipelineTaskName": "inline"},
        ],
        "pipelineSpec": {
            "tasks": [
                {
                    "name": "run",
                    "taskRef": {"name": "bench"},
                    "params": [
                        {"name": "model", "value": "llama"},
                        {"name": "port", "value": "port-$(tasks.prepare.results.port)"},
                        {"name": "args", "value": ["-v", "$(tasks.prepare.results.args[*])", "end"]},
                        {"name": "all", "value": "$(tasks.prepare.results.args[*])"},
                    ],
                    "matrix": {
                        "params": [{"name": "size", "value": ["1", "2"]}],
                        "include": [{"params": [{"name": "batch", "value": "8"}]}],
                    },
                    "workspaces": [{"name": "out", "workspace": "artifacts", "subPath": "a"}],
                }
            ],
            "finally": [
                {"name": "inline", "taskSpec": {"metadata": {}, "spec": None, "steps": [STEP], "params": []}}
            ],
        },
    },
}
OWNER = {
    "apiVersion": "tekton.dev/v1",
    "kind": "PipelineRun",
    "name": "victim",
    "uid": UID,
    "controller": True,
}
CLAIM = "pvc-ba8238a61b"
"""`pvc-` and the first ten digits of the SHA-256 of the workspace's name and the run's UID."""


def of_reference() -> dict[str, Any]:
    """The TaskRun that Tekton 1.9 makes of the task `run`."""
    return {
        "metadata": {"name": "victim-run", "ownerReferences": [OWNER]},
        "spec": {
            "taskRef": {"name": "bench", "kind": "Task"},
            "params": [
                {"name": "size", "value": "2"},
                {"name": "batch", "value": "8"},
                {"name": "model", "value": "llama"},
                {"name": "port", "value": "port-8080"},
                {"name": "args", "value": ["-v", "a", "b", "end"]},
                {"name": "all", "value": ["a", "b"]},
            ],
            "workspaces": [{"name": "out", "subPath": "a", "persistentVolumeClaim": {"claimName": CLAIM}}],
            "podTemplate": {"volumes": [SECRET], "nodeSelector": {"gpu": "yes"}},
            "serviceAccountName": "pipeline",
            "timeout": "1h0m0s",
        },
    }


def written_in() -> dict[str, Any]:
    """That of the task `inline`, whose spec stands in the Pipeline."""
    step = {**STEP, "script": "run $(params.model) 8080 now", "computeResources": {}}
    return {
        "metadata": {"name": "victim-inline", "ownerReferences": [OWNER]},
        "spec": {
            "taskSpec": {"steps": [step]},
            "workspaces": [{"name": "code", "configMap": {"name": "code"}}],
            "podTemplate": {"volumes": [SECRET]},
        },
    }


def test_what_tekton_makes_is_of_the_run() -> None:
    assert difference(of_reference(), RUN) == ""
    assert difference(written_in(), RUN) == ""
    shared = of_reference()
    shared["spec"]["workspaces"][0]["persistentVolumeClaim"]["claimName"] += (
        "-affinity-assistant-1bdd5b5b92-0"
    )
    assert difference(shared, RUN) == "", "with coschedule: pipelineruns"


FORGED_TASKS: dict[str, tuple[dict[str, Any], str]] = {
    "a spec of its own": ({"taskRef": None, "taskSpec": {"steps": [{"image": "evil"}]}}, "taskRef"),
    "another task": ({"taskRef": {"name": "evil", "kind": "Task"}}, "taskRef"),
    "a task of another kind": ({"taskRef": {"name": "bench", "kind": "ClusterTask"}}, "taskRef"),
    "a task of another place": (
        {"taskRef": {"resolver": "git", "params": [{"name": "url", "value": "evil"}]}},
        "taskRef",
    ),
    "both": ({"taskSpec": {"steps": [{"image": "evil"}]}}, "taskSpec"),
    "another parameter": ({"params": [{"name": "model", "value": "evil"}]}, "params"),
    "one parameter more": ({"params": [*of_reference()["spec"]["params"], {"name": "x"}]}, "params"),
    "a default in place of a parameter": ({"params": of_reference()["spec"]["params"][:2]}, "params"),
    "no parameters": ({"params": None}, "params"),
    "another volume": (
        {"workspaces": [{"name": "out", "persistentVolumeClaim": {"claimName": "evil"}}]},
        "workspaces",
    ),
    "a volume more": ({"workspaces": [{"name": "x", "configMap": {"name": "code"}}]}, "workspaces"),
    "variables": ({"podTemplate": {"env": [{"name": "PYTHONPATH", "value": "/evil"}]}}, "podTemplate"),
    "volumes": ({"podTemplate": {"volumes": [SECRET, {"name": "x"}]}}, "podTemplate"),
    "another node": ({"podTemplate": {"nodeSelector": {"evil": "yes"}}}, "podTemplate"),
}


@pytest.mark.parametrize("case", FORGED_TASKS)
def test_what_somebody_else_makes_is_not(case: str) -> None:
    changed, field = FORGED_TASKS[case]
    forged = of_reference()
    forged["spec"] |= changed
    assert difference(forged, RUN) == field


@pytest.mark.parametrize(
    "owners",
    [None, [{**OWNER, "controller": False}], [{**OWNER, "uid": "of-an-earlier-run"}]],
    ids=["by its name alone", "no controller", "of an earlier run of the name"],
)
def test_what_its_run_does_not_control_is_not(owners: Any) -> None:
    adopted = of_reference()
    adopted["metadata"]["ownerReferences"] = owners
    assert difference(adopted, RUN) == "owner"


@pytest.mark.parametrize("listed", ["by name", "gone", "own"])
def test_the_results_of_a_run_may_be_copies_of_what_it_does_not_control(listed: str) -> None:
    adopted = written_in()
    if listed == "by name":
        del adopted["metadata"]["ownerReferences"]
    there = [of_reference(), *([adopted] if listed != "gone" else [])]
    own, problem = believed(RUN, there)
    assert own == (there if listed == "own" else there[:1])
    assert ("victim-inline" in problem) is (listed != "own")


def test_a_task_that_the_pipeline_does_not_have_is_of_no_run() -> None:
    unnamed = deepcopy(RUN)
    unnamed["status"]["childReferences"][0].pop("pipelineTaskName")
    assert difference(of_reference(), unnamed) == "pipelineTask"
    assert difference(of_reference(), {**RUN, "status": {}}) == "pipelineTask"


@pytest.mark.parametrize(
    ("script", "same"),
    [
        ("run $(params.model) 8080 now", True),
        ("run $(params.model)  now", True),
        ("run $(params.model) now", False),
        ("run llama 8080 now", False),
        ("run $(params.model) 8080 now; evil", False),
        ("", False),
    ],
)
def test_a_script_has_text_of_others_only_where_the_pipeline_has_a_result(script: str, same: bool) -> None:
    forged = written_in()
    forged["spec"]["taskSpec"]["steps"][0]["script"] = script
    assert difference(forged, RUN) == ("" if same else "taskSpec")


def test_the_comparison_of_texts_takes_linear_time() -> None:
    template = "$(tasks.a.results.b)x" * 2000 + "end"
    began = process_time()
    assert not fits(template, "x" * 10**6)
    assert process_time() - began < 1
