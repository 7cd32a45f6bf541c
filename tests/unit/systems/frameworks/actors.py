"""Tekton and the controller of an invented kind, played on the in-memory API server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fournos.engine.api.conditions import Condition, condition
from fournos.engine.kube.errors import InvalidError, KubeError
from fournos.engine.kube.resource import Key, Obj, Resource, is_terminating, key_of
from fournos.engine.queueing.kinds import RESOURCE_FLAVOR, WORKLOAD
from fournos.systems.frameworks.kinds import PIPELINE_RUN, Framework
from tests.world.kueue import owner_name
from tests.world.server import Server
from tests.world.status import set_conditions

NS = "team"
RUN = PIPELINE_RUN.resource
FOO_ROW = {
    "name": "Foo.v1.example.com",
    "hold": {"path": "spec.suspend"},
    "podSets": [{"name": "workers", "template": "spec.template", "count": "spec.replicas"}],
    "finished": [{"path": "status.phase", "succeeded": ["Done"], "failed": ["Broken"]}],
    "active": {"path": "status.active"},
}
FOO_KIND = Framework.model_validate(FOO_ROW)
FOO = FOO_KIND.resource
SELECTOR = {"pool": "a"}


@dataclass
class Tekton:
    """Starts what is not pending, ends it unless it is endless, cancels; one move a round."""

    endless: set[str] = field(default_factory=set)
    fails: set[str] = field(default_factory=set)

    def __call__(self, server: Server) -> None:
        for run in server.list(RUN):
            if (
                run["spec"].get("managedBy") or "tekton.dev/pipeline"
            ) == "tekton.dev/pipeline" and self._moved(server, run):
                return

    def _moved(self, server: Server, run: Any) -> bool:
        shown, request = condition(run, "Succeeded") or {}, run["spec"].get("status")
        if shown.get("status") in ("True", "False") or request == "PipelineRunPending" or is_terminating(run):
            return False
        name = run["metadata"]["name"]
        if request == "Cancelled":
            text = f'PipelineRun "{name}" was cancelled'
            set_conditions(server, RUN, run, Condition("Succeeded", "False", "Cancelled", text))
        elif not (run.get("status") or {}).get("startTime"):
            going = Condition("Succeeded", "Unknown", "Running", "Tasks Completed: 0")
            set_conditions(server, RUN, run, going, startTime="2030-01-01T00:00:00Z")
        elif name in self.endless:
            return False
        else:
            failed = name in self.fails
            end = Condition(
                "Succeeded", "False" if failed else "True", "Failed" if failed else "Done", "over"
            )
            set_conditions(server, RUN, run, end)
        return True


@dataclass
class FooController:
    """Runs pods while it may, counts them, and is done unless it is endless."""

    endless: set[str] = field(default_factory=set)

    def __call__(self, server: Server) -> None:
        for foo in server.list(FOO):
            status = foo.get("status") or {}
            if status.get("phase") or is_terminating(foo):
                continue
            active = 0 if foo["spec"].get("suspend") else foo["spec"].get("replicas", 1)
            done = status.get("active") and active and foo["metadata"]["name"] not in self.endless
            wanted = {"active": 0, "phase": "Done"} if done else {"active": active}
            if {key: status.get(key) for key in wanted} != wanted:
                server.patch(FOO, key_of(foo), {"status": wanted}, subresource="status")
                return


def tekton_refuses(verb: str, resource: Resource, body: Obj) -> KubeError | None:
    """Tekton's webhook: refuses every change of a spec except of the requested status."""
    if verb == "patch" and resource == RUN and set(body.get("spec") or ()) - {"status"}:
        return InvalidError("Once the PipelineRun has started, only status updates are allowed", status=422)
    return None


# --- what users write --------------------------------------------------------------------------------


def flavor(server: Server, *, selector: dict[str, str] | None = None) -> None:
    server.create(RESOURCE_FLAVOR, {"metadata": {"name": "default"}, "spec": {"nodeLabels": selector or {}}})


def pipeline_run(
    name: str = "run", *, held: bool = True, pending: bool = True, queue: str = "lq", **annotations: str
) -> dict[str, Any]:
    """As the webhook leaves it."""
    own = {f"fournos.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "apiVersion": RUN.api_version,
        "kind": RUN.kind,
        "metadata": {
            "name": name,
            "namespace": NS,
            "labels": {"kueue.x-k8s.io/queue-name": queue},
            "annotations": {**({"fournos.dev/held": "queue"} if held else {}), **own},
        },
        "spec": {"pipelineRef": {"name": "p"}, **({"status": "PipelineRunPending"} if pending else {})},
    }


def foo(name: str = "foo", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": FOO.api_version,
        "kind": FOO.kind,
        "metadata": {"name": name, "namespace": NS, "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
        "spec": {"suspend": True, "replicas": 2, "template": template, **spec},
    }


def submitted(
    *objects: dict[str, Any], resource: Resource = RUN, selector: dict[str, str] | None = None
) -> Callable[[Server], None]:
    def setup(server: Server) -> None:
        server.refusals.append(tekton_refuses)
        flavor(server, selector=selector)
        for obj in objects:
            server.create(resource, obj)

    return setup


def get(server: Server, name: str = "run", resource: Resource = RUN) -> Any:
    return server.get(resource, Key(NS, name))


def ended(server: Server, name: str = "run") -> tuple[str, str]:
    shown = condition(get(server, name), "Succeeded") or {}
    return str(shown.get("status")), str(shown.get("reason"))


def workload_of(server: Server, name: str = "run") -> Any:
    (found,) = (one for one in server.list(WORKLOAD) if owner_name(one) == name)
    return found
