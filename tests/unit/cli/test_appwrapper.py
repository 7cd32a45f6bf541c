"""fournos appwrapper …: at a glance, one in detail, and why one waits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER
from fournos.cli.command import Root, World
from fournos.cli.errors import Exit
from fournos.cli.find import completion
from fournos.engine.kube.resource import Resource
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NS, ago
from tests.unit.cli.test_errors import Context

QUEUE = "user-queue"


def condition(type_: str, status: str, reason: str = "", message: str = "") -> dict[str, Any]:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": ago(minutes=1),
    }


def wrapper(name: str = "aw", phase: str = "Suspended", *conditions: Any, **changes: Any) -> dict[str, Any]:
    queue = changes.pop("queue", QUEUE)
    labels = {"workload.codeflare.dev/user": "ann"} | ({"kueue.x-k8s.io/queue-name": queue} if queue else {})
    made = {"name": "one", "podSets": [], "conditions": [condition("ResourcesDeployed", "True")]}
    status = {"phase": phase, "componentStatus": [made, {**made, "name": "two"}]} if phase else {}
    status |= {"conditions": list(conditions)} | changes.pop("status", {})
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "two"}}
    return {
        "apiVersion": APPWRAPPER.api_version,
        "kind": "AppWrapper",
        "metadata": {
            "name": name,
            "namespace": NS,
            "uid": name,
            "labels": labels,
            "creationTimestamp": ago(minutes=5),
            **changes.pop("metadata", {}),
        },
        "spec": {"suspend": True, "components": [{"template": template}, {"template": job}], **changes},
        "status": status,
    }


OWNER = {
    "apiVersion": APPWRAPPER.api_version,
    "kind": "AppWrapper",
    "name": "aw",
    "uid": "aw",
    "controller": True,
}


def workload(*conditions: Any, cpu: str = "2", active: bool = True) -> dict[str, Any]:
    container = {"resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Workload",
        "metadata": {"name": "appwrapper-aw", "namespace": NS, "uid": "w", "ownerReferences": [OWNER]},
        "spec": {
            "queueName": QUEUE,
            "active": active,
            "podSets": [{"name": "aw-0", "count": 1, "template": {"spec": {"containers": [container]}}}],
        },
        "status": {"conditions": list(conditions)},
    }


def queues(*, cpu: str = "4", used: str = "0", stop: str = "None") -> dict[str, Any]:
    quota = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": cpu}]}]
    return {
        "queues": [
            {"metadata": {"name": QUEUE, "namespace": NS}, "spec": {"clusterQueue": "cq"}},
        ],
        "cluster_queues": [
            {
                "metadata": {"name": "cq"},
                "spec": {
                    "stopPolicy": stop,
                    "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quota}],
                },
                "status": {
                    "flavorsReservation": [{"name": "f", "resources": [{"name": "cpu", "total": used}]}]
                },
            }
        ],
        "flavors": [{"metadata": {"name": "f"}, "spec": {}}],
    }


def shown(*words: str, api: Api) -> str:
    result = Program(api)(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_at_a_glance() -> None:
    ready = condition("PodsReady", "True", "SufficientPodsReady", "2 pods running; 0 pods succeeded")
    api = Api(wrapper(), wrapper("b", "Running", ready))
    lines = shown("appwrapper", "list", api=api).splitlines()
    assert lines[0].split() == ["NAME", "PHASE", "QUEUE", "COMPONENTS", "AGE", "MESSAGE"]
    assert lines[1].split() == ["aw", "Suspended", QUEUE, "Pod,", "Job", "5m"]
    assert lines[2].endswith("2 pods running; 0 pods succeeded")
    wide = shown("appwrapper", "list", "-o", "wide", "--phase", "running", api=api)
    assert "ann" in wide
    assert "aw " not in wide


def test_one_in_detail() -> None:
    pod = {
        "kind": "Pod",
        "metadata": {
            "name": "one",
            "namespace": NS,
            "uid": "p",
            "labels": {"workload.codeflare.dev/appwrapper": "aw"},
            "annotations": {"workload.codeflare.dev.appwrapper/component": "0"},
            "ownerReferences": [OWNER],
        },
        "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    job = {
        "kind": "Job",
        "metadata": {"name": "two", "namespace": NS, "uid": "j", "ownerReferences": [OWNER]},
        "spec": {"parallelism": 2},
        "status": {"ready": 1},
    }
    api = Api(wrapper("aw", "Running"), workload(), pod, job)
    text = shown("explain", "appwrapper/aw", api=api)
    for told in ("Pod   one   there", "Job   two   pending", "1 pods running", "node-1", "appwrapper-aw"):
        assert told in text, text


def test_a_component_of_an_unknown_kind() -> None:
    """As the operator judges it: by conditions that most kinds have."""
    widget = Resource("example.com", "v1", "Widget", "widgets")
    template = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}}
    status = {"componentStatus": [{"name": "one", "podSets": []}]}
    api = Api(wrapper("aw", "Running", components=[{"template": template}], status=status))
    live = {"metadata": {"name": "one", "namespace": NS, "uid": "x", "ownerReferences": [OWNER]}}
    api.add(widget, live)
    assert "Widget  one   there" in shown("explain", "appwrapper/aw", api=api)
    api.add(widget, {**live, "status": {"conditions": [condition("Failed", "True", "Broken", "a cog")]}})
    assert "failed: Broken: a cog" in shown("explain", "appwrapper/aw", api=api)


def test_a_name_that_is_not_there() -> None:
    result = Program(Api(wrapper("sample")))("explain", "appwrapper/sampl")
    assert result.exit_code == Exit.NOT_FOUND
    assert "did you mean sample?" in result.stderr


WAITING = condition("QuotaReserved", "False", "Pending", "insufficient unused quota for cpu")
NEVER = condition("QuotaReserved", "False", "Pending", "insufficient quota for cpu > maximum capacity (4)")

EXPLAINED = {
    "nobody is there": (Api(wrapper(phase="")), "No operator has looked at aw yet"),
    "another runs it": (Api(wrapper(phase="", managedBy="x.io/y")), "run by x.io/y"),
    "its own will": (Api(wrapper(queue=None)), 'suspended by its own spec.suspend'),
    "no queue": (Api(wrapper()), f"waits for LocalQueue {QUEUE}"),
    "a stopped queue": (Api(wrapper(), workload(), **queues(stop="Hold")), "is stopped (stopPolicy Hold)"),
    "no Workload": (Api(wrapper(), **queues()), "aw is not queued yet"),
    "deactivated": (Api(wrapper(), workload(active=False), **queues()), "deactivated in Kueue"),
    "too much in use": (Api(wrapper(), workload(WAITING), **queues(used="3")), "too much of cpu is in use"),
    "never": (Api(wrapper(), workload(NEVER, cpu="9"), **queues()), "no flavor has more than 4"),
    "uncovered": (Api(wrapper(), workload(NEVER), **{**queues(), "cluster_queues": [
        {"metadata": {"name": "cq"}, "spec": {"resourceGroups": []}}]}), "no quota for cpu exists"),
    "soon": (Api(wrapper(), workload(WAITING), **queues()), "should be admitted any moment"),
    "being made": (Api(wrapper(phase="Resuming"), **queues()), "its resources are being made"),
    "not ready": (
        Api(wrapper("aw", "Running", condition("PodsReady", "False", "x", "1 pods pending")), **queues()),
        "not all of it is ready",
    ),
    "a failure that may pass": (
        Api(wrapper("aw", "Running", condition("Unhealthy", "True", "FoundFailedPods"))),
        "(FoundFailedPods), and is made again unless it recovers",
    ),
    "made anew": (
        Api(wrapper("aw", "Resetting", condition("Unhealthy", "True", "FoundFailedPods", "1 pods failed"))),
        "Unhealthy: FoundFailedPods: 1 pods failed",
    ),
    "failed": (
        Api(wrapper("aw", "Failed", condition("Unhealthy", "True", "MissingComponent", "only 1"))),
        "MissingComponent: only 1",
    ),
    "going": (Api(wrapper(phase="Suspending")), "its resources go first"),
    "succeeded": (Api(wrapper(phase="Succeeded")), "has ended: Succeeded"),
}  # fmt: skip


@pytest.mark.parametrize("case", EXPLAINED)
def test_why(case: str) -> None:
    api, told = EXPLAINED[case]
    assert told in shown("explain", "appwrapper/aw", api=api)


def test_why_for_programs() -> None:
    api = Api(wrapper(), workload(WAITING), **queues(used="3"))
    found = json.loads(shown("explain", "appwrapper/aw", "-o", "json", api=api))
    assert (found["phase"], found["position"], found["waiting"]) == ("Suspended", 1, 1)
    assert found["quota"][0]["asks"] == "2"


def test_completion() -> None:
    api = Api(wrapper("sample"), wrapper("other"))
    context = Context(Root(World(connect=Program(api)._connect)))
    assert completion(APPWRAPPER)(context, "sa") == [("sample", "Suspended")]  # type: ignore[arg-type]
