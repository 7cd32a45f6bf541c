"""Pod templates that no API server has checked: a wrong type is that object's problem, never an exception."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER
from fournos.engine.api.conditions import condition
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.podsets import template_problem
from tests.unit.systems.appwrappers import actors as appwrappers
from tests.unit.systems.appwrappers.test_lifecycle import scenario as of_appwrappers
from tests.unit.systems.frameworks import actors as frameworks
from tests.unit.systems.frameworks.test_lifecycle import scenario as of_frameworks
from tests.world.harness import Scenario, run
from tests.world.server import Server

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "restartPolicy": "Never",
        "nodeSelector": {"e": "f"},
        "tolerations": [{"key": "t"}],
        "schedulingGates": [{"name": "g"}],
        "priorityClassName": "",
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "k"}]}]
                }
            }
        },
        "initContainers": [{"name": "i", "image": "i"}],
        "containers": [
            {
                "name": "main",
                "image": "i",
                "env": [{"name": "X", "value": "1"}],
                "resources": {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": 1}},
            }
        ],
    },
}
STRANGE: tuple[Any, ...] = (None, 7, True, "text", [], ["text"], [None], {}, {"X": 1})


def poisoned(template: Any = TEMPLATE) -> Iterator[Any]:
    """Yields copies in each of which one value has another type."""
    if isinstance(template, dict | list):
        items = list(template.items() if isinstance(template, dict) else enumerate(template))
        for key, value in items:
            for other in (*STRANGE, *poisoned(value)):
                changed = copy.copy(template)
                changed[key] = other
                yield changed


def test_the_template_itself_has_no_problem() -> None:
    assert template_problem(TEMPLATE) == ""


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"env": {"X": 1}}, "spec.containers[0].env is not a list"),
        ({"env": ["X"]}, "spec.containers[0].env[0] is not an object"),
        ({"env": [{"name": 1}]}, "spec.containers[0].env[0].name is not a text"),
        ({"resources": {"limits": {"a": [1]}}}, "spec.containers[0].resources.limits.a is not a quantity"),
        ({"resources": {"limits": {"a": True}}}, "spec.containers[0].resources.limits.a is not a quantity"),
        ({"env": None, "resources": {"limits": None}}, ""),
    ],
)  # fmt: skip
def test_a_problem_names_its_field(change: dict[str, Any], problem: str) -> None:
    template = {"spec": {"containers": [{"name": "c", **change}]}}
    assert template_problem(template) == problem


def wrapped(template: Any) -> Obj:
    return {**appwrappers.job_template("j"), "spec": {"template": template}}


def foo(template: Any) -> Obj:
    return frameworks.foo(template=template)


async def lives(story: Scenario) -> Server:
    """Runs the story; raises if a pass raised."""
    return (await run(story)).server


def _values(spec: Any) -> list[Any]:
    return list(spec.values()) if isinstance(spec, dict) else []


POISONED = list(poisoned())
SOME = [
    number for number, found in enumerate(POISONED) if number % 6 == 0 or None in _values(found.get("spec"))
]


def test_there_are_enough_of_them() -> None:
    assert len(POISONED) > 300


@pytest.mark.parametrize("number", SOME)
async def test_an_appwrapper_of_any_template_ends_or_runs(number: int) -> None:
    def setup(server: Server) -> None:
        appwrappers.submit(server, wrapped(POISONED[number]))

    server = await lives(of_appwrappers(setup, end=lambda server: None, horizon=600))
    found = appwrappers.get(server)
    assert found["status"]["phase"] in ("Succeeded", "Failed", "Suspended"), found["status"]
    if found["status"]["phase"] == "Failed":
        assert (condition(found, "Unhealthy") or {})["reason"] in ("Invalid", "CreateFailed")


@pytest.mark.parametrize("change", [{"env": {"X": 1}}, {"resources": ["cpu"]}])
async def test_a_template_that_is_spoiled_later_ends_its_appwrapper_alone(change: dict[str, Any]) -> None:
    """Where no webhook stands before it."""

    def setup(server: Server) -> None:
        for name in ("aw", "good"):
            appwrappers.submit(server, appwrappers.job_template(name), name=name)

    def spoil(server: Server) -> None:
        template = appwrappers.pod_template()
        template["spec"]["containers"] = [{**template["spec"]["containers"][0], **change}]
        body = {"spec": {"components": [{"template": wrapped(template)}]}}
        server.patch(APPWRAPPER, Key(appwrappers.NS, "aw"), body)

    endless = appwrappers.Controllers(endless={"aw-0"})
    server = await lives(
        of_appwrappers(setup, world=lambda: endless, script=[spoil], end=lambda server: None, horizon=900)
    )
    assert appwrappers.phase(server, "good") == "Succeeded"
    assert appwrappers.phase(server) == "Failed"
    assert (condition(appwrappers.get(server), "Unhealthy") or {})["reason"] == "Invalid"
    assert not any(pod["metadata"]["name"] == "aw-0" for pod in appwrappers.pods_of(server))


@pytest.mark.parametrize("number", SOME)
async def test_an_object_of_any_template_is_queued_or_says_why_not(number: int) -> None:
    story = of_frameworks(
        frameworks.submitted(foo(POISONED[number]), frameworks.foo("good"), resource=frameworks.FOO),
        kind=frameworks.FOO_KIND,
        world=frameworks.FooController,
        end=lambda server: None,
        horizon=600,
    )
    server = await lives(story)
    assert frameworks.get(server, "good", frameworks.FOO)["status"]["phase"] == "Done"
    assert isinstance(frameworks.get(server, "foo", frameworks.FOO)["spec"], dict)
    assert server.list(WORKLOAD)
