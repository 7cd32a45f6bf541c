"""What fails a job at once, what makes it wait, and the message of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fournos.api.kinds import PIPELINE_RUN
from fournos.engine.kube.errors import ConnectionLostError, KubeError, error_from
from fournos.engine.kube.resource import POD, Key, Obj, Resource
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.jobs.settings import Template
from tests.unit.systems.jobs.actors import (
    NS,
    Kueue,
    Resolver,
    Tekton,
    phase,
    submit,
)
from tests.unit.systems.jobs.test_names_and_adoption import finished, status
from tests.world.server import Server


@pytest.mark.parametrize("kind", [WORKLOAD, PIPELINE_RUN])
@pytest.mark.parametrize(
    ("code", "body"),
    [(302, b"<html>log in</html>"), (400, b"<html>400 Bad request</html>"), (404, b"no such page")],
)
async def test_one_answer_of_a_proxy_ends_no_job(kind: Resource, code: int, body: bytes) -> None:
    def setup(server: Server) -> None:
        submit(server)
        left = [1]

        def refuse(verb: str, resource: Resource, obj: Obj) -> KubeError | None:
            if verb == "create" and resource == kind and left:
                left.pop()
                return error_from(code, body)
            return None

        server.refusals.append(refuse)

    assert phase(await finished(setup)) == "Succeeded"


@pytest.mark.parametrize(
    ("missing", "reason"), [(PIPELINE_RUN, "TektonNotInstalled"), (WORKLOAD, "KueueNotInstalled")]
)
async def test_a_missing_engine_waits_until_it_is_installed(missing: Resource, reason: str) -> None:
    def install(server: Server) -> None:
        reasons = [c["reason"] for c in status(server)["conditions"]]
        assert reason in reasons
        server.unserved.discard(missing)

    def once_installed(actor: Any) -> Callable[[Server], None]:
        return lambda server: None if missing in server.unserved else actor(server)

    def setup(server: Server) -> None:
        server.unserved.add(missing)
        submit(server)

    kueue = once_installed(Kueue()) if missing is WORKLOAD else Kueue()
    cast = [Resolver(), kueue, once_installed(Tekton())]
    assert phase(await finished(setup, cast=cast, script=[install])) == "Succeeded"


async def test_an_unreadable_template_waits_and_names_it() -> None:
    broken = Template("nowhere.yaml", None, "no such file")
    server = await finished(template=broken)
    assert phase(server) == "Resolving"
    assert "'nowhere.yaml' no such file" in status(server)["message"]


async def test_a_foreign_object_of_our_name_is_left_alone() -> None:
    foreign = {"metadata": {"name": "job", "namespace": NS, "labels": {"theirs": "yes"}}, "spec": {"x": 1}}

    def setup(server: Server) -> None:
        server.create(PIPELINE_RUN, foreign)
        submit(server)

    server = await finished(setup, tekton=Tekton(endless={"job"}))
    assert phase(server) == "Failed"
    assert "exists already and belongs to no controller" in status(server)["message"]
    assert server.get(PIPELINE_RUN, Key(NS, "job"))["spec"] == {"x": 1}
    assert server.list(WORKLOAD) == []


async def test_a_spec_that_cannot_be_read_fails_with_the_error() -> None:
    server = await finished(lambda s: submit(s, hardware={"gpuType": ["a100"], "gpuCount": "many"}))
    assert phase(server) == "Failed"
    assert "The spec cannot be read: spec.hardware.gpuType" in status(server)["message"]


async def test_no_second_run_beside_the_pods_of_a_deleted_one() -> None:
    """The answer to the creation is lost, the run starts a pod, a user deletes it, all in one pass."""

    def setup(server: Server) -> None:
        def lose(verb: str, resource: Resource, obj: Obj) -> KubeError | None:
            if (verb, resource) != ("create", PIPELINE_RUN):
                return None
            server.refusals.clear()
            labels = {"tekton.dev/pipelineRun": "job"}
            server.create(POD, {"metadata": {"name": "left", "namespace": NS, "labels": labels}})
            server.patch(POD, Key(NS, "left"), {"status": {"phase": "Running"}}, subresource="status")
            return ConnectionLostError("connection reset by peer")

        server.refusals.append(lose)
        submit(server)

    def look(server: Server) -> None:
        assert (phase(server), server.list(PIPELINE_RUN)) == ("Admitted", [])
        assert "waiting for 1 pod(s) to end: left" in status(server)["message"]
        server.delete(POD, Key(NS, "left"))

    server = await finished(setup, script=[look], tekton=Tekton(keeps_pods={"left"}))
    assert phase(server) == "Succeeded"


LIMITS = {
    "none": ({}, ("25h0m0s", "24h0m0s", "1h0m0s")),
    "pipeline": ({"pipeline": "10h"}, ("10h", "9h0m0s", "1h0m0s")),
    "short pipeline": ({"pipeline": "1h"}, ("1h", "30m0s", "30m0s")),
    "pipeline and tasks": ({"pipeline": "1h", "tasks": "50m"}, ("1h", "50m", "10m0s")),
    "pipeline and finally": ({"pipeline": "1h", "finally": "5m"}, ("1h", "55m0s", "5m")),
    "tasks": ({"tasks": "48h"}, ("49h0m0s", "48h", "1h0m0s")),
    "all": ({"pipeline": "3h", "tasks": "1h", "finally": "1h"}, ("3h", "1h", "1h")),
}


@pytest.mark.parametrize("case", LIMITS)
async def test_limits_that_are_not_given_follow_from_those_that_are(case: str) -> None:
    given, wanted = LIMITS[case]
    server = await finished(lambda s: submit(s, timeouts=given))
    limits = server.get(PIPELINE_RUN, Key(NS, "job"))["spec"]["timeouts"]
    assert (limits["pipeline"], limits["tasks"], limits["finally"]) == wanted
