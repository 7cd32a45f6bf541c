"""A wrapped kind that the operator does not know: watched while objects of it may exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER
from fournos.engine.api.conditions import Condition, condition, is_true
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.resource import POD, Key, Resource, owner_reference
from fournos.systems.appwrappers.health import ComponentHealth, ComponentState, other
from fournos.systems.appwrappers.observe import follow, project_other
from tests.unit.systems.appwrappers.actors import (
    NS,
    Controllers,
    get,
    phase,
    pod_template,
    pods_of,
    submit,
    wrapper,
)
from tests.unit.systems.appwrappers.test_lifecycle import outcome, scenario
from tests.world.harness import DISTURBED, Run, Scenario, refusing, run
from tests.world.server import Server
from tests.world.status import set_conditions

WIDGET = Resource("example.com", "v1", "Widget", "widgets")
BROKEN = Condition("Failed", "True", "Broken", "a cog is missing")
DONE = Condition("Completed", "True", "Done", "")


def widget(replicas: int = 1) -> dict[str, Any]:
    spec = {"replicas": replicas, "template": pod_template()}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def submitted(**annotations: str) -> Callable[[Server], None]:
    """Submits it with a path to its pod template."""

    def setup(server: Server) -> None:
        submit(server, widget(), **annotations)
        declared = {"path": "template.spec.template", "replicas": 1}
        body = {"spec": {"components": [{"template": widget(), "podSets": [declared]}]}}
        server.patch(APPWRAPPER, Key(NS, "aw"), body)

    return setup


class Widgets(Controllers):
    """Makes a Widget's pod anew when it is lost, until the Widget has ended.

    `fate`: what happens to the Widget, a move a round, once all is ready.
    """

    def __init__(self, *fate: Callable[[Server], None], **options: Any) -> None:
        super().__init__(**options)
        self.fate = list(fate)

    def __call__(self, server: Server) -> None:
        if self.fate and is_true(get(server), "PodsReady"):
            self.fate.pop(0)(server)
            return
        for one in server.list(WIDGET):
            ended = is_true(one, "Failed") or is_true(one, "Completed")
            if not ended and self._made_pods(server, WIDGET, one):
                return
        super().__call__(server)


def deleted(server: Server) -> None:
    server.delete(WIDGET, Key(NS, "w"))
    server.collect_garbage()


def reports(wanted: Condition) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        set_conditions(server, WIDGET, server.get(WIDGET, Key(NS, "w")), wanted)

    return act


def without_pods(server: Server) -> None:
    """Its controller takes the pods away when it is done."""
    server.delete(POD, Key(NS, "w-0"))


def story(*fate: Callable[[Server], None], endless: bool = True, **options: Any) -> Scenario:
    pods = {"w-0"} if endless else set()
    return scenario(
        submitted(retryLimit="0"),
        world=lambda: Widgets(*fate, endless=pods),
        **{"end": outcome, **options},
    )


STORIES: dict[str, Scenario] = {
    "ends with its pods": story(endless=False),
    "is lost": story(deleted),
    "fails by its own word": story(reports(BROKEN)),
    "is done and takes its pods away": story(reports(DONE), without_pods),
}


@pytest.mark.parametrize("disturbed", DISTURBED)
@pytest.mark.parametrize("story", STORIES)
async def test_survives(story: str, disturbed: str) -> None:
    assert await DISTURBED[disturbed](STORIES[story]) > 5


def unhealthy(done: Run) -> tuple[str, str]:
    found = condition(get(done.server), "Unhealthy") or {}
    return str(found.get("reason")), str(found.get("message"))


async def test_its_end_is_seen_by_its_event_alone() -> None:
    """Within a horizon of no time at all: no timer and no retry has helped."""
    lost = await run(story(deleted, horizon=0))
    assert phase(lost.server) == "Failed"
    assert unhealthy(lost)[0] == "MissingComponent" and "Widget w" in unhealthy(lost)[1]
    broken = await run(story(reports(BROKEN), horizon=0))
    assert phase(broken.server) == "Failed"
    assert unhealthy(broken) == (
        "FailedComponent",
        "Found 1 failed components: w: Broken: a cog is missing",
    )
    done = await run(story(reports(DONE), without_pods, horizon=0))
    assert phase(done.server) == "Succeeded"


async def test_a_completed_object_with_running_pods_is_not_done() -> None:
    """Such as a rollout, which is complete when everything runs."""
    done = await run(story(reports(DONE), horizon=3600))
    assert phase(done.server) == "Running" and len(pods_of(done.server)) == 1


async def test_its_going_needs_no_polling() -> None:
    """A deletion that another controller's finalizer delays is observed when it completes."""

    def held(server: Server) -> None:
        server.patch(WIDGET, Key(NS, "w"), {"metadata": {"finalizers": ["example.com/held"]}})

    def gone(server: Server) -> None:
        server.delete(APPWRAPPER, Key(NS, "aw"))

    def podless(server: Server) -> None:
        server.delete(POD, Key(NS, "w-0"))

    def released(server: Server) -> None:
        assert phase(server) == "Terminating"
        server.patch(WIDGET, Key(NS, "w"), {"metadata": {"finalizers": None}})

    def at_end(server: Server) -> Any:
        return server.find(APPWRAPPER, Key(NS, "aw"))

    done = await run(story(horizon=0, end=at_end, script=[held, gone, podless, released]))
    assert done.end is None


async def test_nothing_is_watched_for_what_is_not_there() -> None:
    waiting = {**wrapper(widget()), "status": {"phase": "Suspended"}}
    assert follow(waiting) == ()
    there = {
        **waiting,
        "status": {"conditions": [{"type": "ResourcesDeployed", "status": "True"}]},
    }
    (watch,) = follow(there)
    assert (watch.resource, watch.required) == (WIDGET, False)
    assert follow({**there, "spec": {**there["spec"], "managedBy": "kueue.x-k8s.io/multikueue"}}) == ()
    known = wrapper(pod_template("p"))
    assert follow({**known, "status": there["status"]}) == ()
    done = await run(story(deleted))
    assert WIDGET not in done.process.caches, "its watch is over"  # type: ignore[union-attr]


async def test_it_cannot_be_created_where_there_is_no_right_to() -> None:
    def setup(server: Server) -> None:
        server.unreadable.add(WIDGET)
        refusing(WIDGET, ForbiddenError("no", status=403))(server)
        submitted(retryLimit="0")(server)

    done = await run(scenario(setup, end=lambda server: None))
    assert phase(done.server) == "Failed" and unhealthy(done)[0] == "CreateFailed"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, None),
        ("odd", None),
        ({"conditions": "odd"}, None),
        ({"conditions": ["odd", {"type": "Ready", "status": "True"}]}, None),
        ({"conditions": [{"type": "Failed", "status": "False"}]}, None),
        (
            {"conditions": [{"type": "Failed", "status": "True", "reason": "R", "message": "m"}]},
            ComponentHealth(ComponentState.FAILED, "R: m"),
        ),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, ComponentHealth(ComponentState.SUCCEEDED)),
        (
            {"conditions": [{"type": "Succeeded", "status": "True"}]},
            ComponentHealth(ComponentState.SUCCEEDED),
        ),
    ],
)
def test_the_health_of_its_conditions(status: Any, expected: ComponentHealth | None) -> None:
    obj = {"metadata": {"name": "w"}, "status": status, "data": {"password": "secret"}}
    assert other(obj) == expected
    kept = project_other(obj)
    assert other(kept) == expected
    assert "secret" not in str(kept)


async def test_another_s_object_of_that_name_is_none_of_ours() -> None:
    def occupied(server: Server) -> None:
        server.create(APPWRAPPER, {**wrapper(), "metadata": {"name": "other", "namespace": NS}})
        taken, other = widget(), get(server, "other")
        owners = [owner_reference(APPWRAPPER, other)]
        taken["metadata"] |= {"namespace": NS, "ownerReferences": owners}
        server.create(WIDGET, taken)
        submitted(retryLimit="0")(server)

    done = await run(scenario(occupied))
    assert phase(done.server) == "Failed" and done.server.find(WIDGET, Key(NS, "w")) is not None
