"""fournos explain KIND/NAME: why an object of a configured kind waits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fournos.cli.errors import Exit
from fournos.engine.kube.resource import Resource
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.frameworks.kinds import PIPELINE_RUN
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NS, ago
from tests.unit.cli.test_appwrapper import QUEUE, condition, queues

RUN = PIPELINE_RUN.resource
FOO = Resource("example.com", "v1", "Foo", "foos")
FILE = str(Path(__file__).parents[3] / "samples" / "frameworks.yaml")
HELD = {"fournos.dev/held": "queue"}
PENDING = {"spec": {"status": "PipelineRunPending"}}
WAITING = condition("QuotaReserved", "False", "Pending", "insufficient unused quota for cpu")
NEVER = condition("QuotaReserved", "False", "Pending", "insufficient quota for cpu > maximum capacity (4)")
ADMITTED = (condition("QuotaReserved", "True"), condition("Admitted", "True", "Admitted", "by cq"))


def obj(name: str = "run", *, kind: Resource = RUN, queue: str = QUEUE, **changes: Any) -> dict[str, Any]:
    meta = {
        "name": name,
        "namespace": NS,
        "uid": name,
        "creationTimestamp": ago(minutes=5),
        "labels": {"kueue.x-k8s.io/queue-name": queue} if queue else {},
        "annotations": {**HELD, **changes.pop("annotations", {})},
        **changes.pop("metadata", {}),
    }
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": {}, **changes}


def workload(*conditions: Any, of: str = "run", cpu: str = "2", active: bool = True) -> dict[str, Any]:
    owner = {"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "name": of, "uid": of, "controller": True}
    container = {"resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"containers": [container]}}
    assignments = [{"name": "main", "flavors": {"cpu": "f"}}]
    admitted = any(one["type"] == "Admitted" for one in conditions)
    return {
        "kind": "Workload",
        "metadata": {"name": f"pipelinerun-{of}", "namespace": NS, "uid": "w", "ownerReferences": [owner]},
        "spec": {
            "queueName": QUEUE,
            "active": active,
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
        "status": {
            "conditions": list(conditions),
            **({"admission": {"podSetAssignments": assignments}} if admitted else {}),
        },
    }


WRAPPER = {
    "apiVersion": "workload.codeflare.dev/v1beta2",
    "kind": "AppWrapper",
    "name": "aw",
    "uid": "aw",
    "controller": True,
}


def wrapper_workload(*conditions: Any) -> dict[str, Any]:
    found = workload(*conditions, of="aw")
    found["metadata"]["ownerReferences"] = [WRAPPER]
    named = {"fournos.dev/component": "tekton.dev/v1/PipelineRun/run"}
    found["spec"]["podSets"][0]["template"]["metadata"] = {"annotations": named}
    return found


def world(*objects: Any, **others: Any) -> Api:
    """The queues are there unless a test takes them away."""
    api = Api(**{**queues(), **others})
    for one in objects:
        resource = WORKLOAD if one["kind"] == "Workload" else FOO if one["kind"] == "Foo" else RUN
        api.add(resource, one)
    return api


def shown(api: Api, *words: str, file: str = "") -> str:
    result = Program(api, env={"FOURNOS_FRAMEWORKS_FILE": file})("explain", *words)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def ended(status: str, reason: str, message: str) -> dict[str, Any]:
    return {"conditions": [condition("Succeeded", status, reason, message)]}


STOPPED = {"fournos.dev/stopped": "Preempted: by a higher priority"}
CASES: dict[str, tuple[list[Any], dict[str, Any], list[str]]] = {
    "too much in use": (
        [obj(**PENDING), workload(WAITING)],
        queues(used="3"),
        ["run Waiting", "too much of cpu is in use", "Place 1 of 1"],
    ),
    "never": (
        [obj(**PENDING), workload(NEVER, cpu="9")],
        {},
        ["no flavor has more than 4", "ask for less"],
    ),
    "no LocalQueue": ([obj(**PENDING)], {"queues": []}, [f"waits for LocalQueue {QUEUE}"]),
    "not queued": ([obj(**PENDING)], {}, ["not queued yet", "fournos run --enable frameworks"]),
    "deactivated": ([obj(**PENDING), workload(active=False)], {}, ["deactivated in Kueue"]),
    "admitted": ([obj(**PENDING), workload(*ADMITTED)], {}, ["is admitted and starts any moment"]),
    "over": (
        [obj(**PENDING), workload(condition("Finished", "True"))],
        {},
        ["still waits, although its Workload has ended"],
    ),
    "runs": ([obj(), workload(*ADMITTED)], {}, ["run Running", "is running on f, but is not ready"]),
    "runs unqueued": ([obj()], {}, ["runs without quota", "turn the admission webhook on"]),
    "is ready": (
        [obj(status={"startTime": ago(minutes=1)}), workload(*ADMITTED)],
        {},
        ["is running on f."],
    ),
    "evicted": (
        [obj(), workload(*ADMITTED, condition("Evicted", "True", "Preempted", "by x"))],
        {},
        ["was evicted (Preempted) and is being stopped", "Kueue: by x"],
    ),
    "being ended": (
        [obj(annotations=STOPPED), workload(*ADMITTED)],
        {},
        ["ended by its queue", "Preempted: by a higher priority"],
    ),
    "ended by the queue": (
        [obj(annotations=STOPPED, status=ended("False", "Cancelled", "cancelled"))],
        {},
        ["run Failed", "Stopped by the queue: Preempted: by a higher priority"],
    ),
    "succeeded": ([obj(status=ended("True", "Succeeded", "3 tasks"))], {}, ["run Succeeded", "3 tasks"]),
    "its user's": (
        [obj(annotations={"fournos.dev/held": "no"}, **PENDING)],
        {},
        ["kept out of its queue: HeldByUser", "created on hold", "fournos.dev/held=queue"],
    ),
    "no queue": ([obj(queue="", **PENDING)], {}, ["names no queue", "on hold by its own spec.status"]),
    "elsewhere": (
        [obj(spec={"managedBy": "kueue.x-k8s.io/multikueue"})],
        {},
        ["on another cluster"],
    ),
    "of a queued owner": (
        [
            obj(
                metadata={"ownerReferences": [WRAPPER]},
                **PENDING,
            ),
            wrapper_workload(WAITING),
        ],
        {},
        ["belongs to AppWrapper aw and runs on its quota, which it waits for"],
    ),
    "going": (
        [obj(metadata={"deletionTimestamp": ago(minutes=1), "finalizers": ["chains.tekton.dev"]})],
        {},
        ["is being deleted", "chains.tekton.dev"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_why(case: str) -> None:
    objects, others, told = CASES[case]
    text = shown(world(*objects, **others), "pipelinerun/run")
    for words in told:
        assert words in text, text


def test_for_programs() -> None:
    found = json.loads(
        shown(world(obj(**PENDING), workload(WAITING), **queues(used="3")), "pipelinerun/run", "-o", "json")
    )
    assert (found["phase"], found["position"], found["quota"][0]["asks"]) == ("Waiting", 1, "2")


@pytest.mark.parametrize(
    "typed", ["foo/run", "Foo/run", "foos/run", "foos.example.com/run", "Foo.v1.example.com/run"]
)
def test_a_kind_is_named_as_kubectl_does(typed: str) -> None:
    """Of a kind that the operator's own file adds."""
    api = world(obj(**PENDING), obj(kind=FOO, spec={"suspend": True}))
    assert "run is not queued yet" in shown(api, typed, file=FILE)


def test_what_is_not_there() -> None:
    api = world(obj("build", **PENDING))
    near = Program(api)("explain", "pipelinerun/biuld")
    assert near.exit_code == Exit.NOT_FOUND and "did you mean build?" in near.stderr
    far = Program(api)("explain", "pipelinerun/x")
    assert "kubectl get pipelineruns.tekton.dev" in " ".join(far.stderr.split())
    unknown = Program(api)("explain", "foo/x")
    assert "known kinds: FournosJob, AppWrapper, MiniCluster, PipelineRun" in " ".join(unknown.stderr.split())
