"""Components that cannot be made: the status and the events of each, with the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fournos.engine.api.conditions import condition
from fournos.engine.kube.errors import (
    ConnectionLostError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NoSuchResourceError,
)
from fournos.engine.kube.resource import DEPLOYMENT, JOB, POD, Resource
from fournos.systems.appwrappers import names
from tests.unit.systems.appwrappers.actors import (
    deployment_template,
    get,
    job_template,
    phase,
    pod_template,
    submit,
)
from tests.unit.systems.appwrappers.test_lifecycle import scenario
from tests.world.harness import Run, run
from tests.world.server import Server

MIX = (pod_template("first"), job_template("second"), deployment_template("third"))


def refusing(error: KubeError, at: Resource = JOB) -> Callable[[Server], None]:
    def setup(server: Server) -> None:
        def refuse(verb: str, resource: Any, body: Any) -> Any:
            return error if (verb, resource) == ("create", at) else None

        server.refusals.append(refuse)
        submit(server, *MIX, retryLimit="0")

    return setup


async def test_pods_that_carry_the_name_of_another_appwrapper_are_not_made() -> None:
    """They would count for that one, and nobody would wait for their end."""
    template = job_template("second")
    template["spec"]["template"].setdefault("metadata", {})["labels"] = {names.LABEL: "old"}
    done = await run(scenario(lambda server: submit(server, template, retryLimit="0")))
    assert "conflict for label key=workload.codeflare.dev/appwrapper" in message_of(done)
    assert done.server.list(JOB) == []


def message_of(done: Run) -> str:
    found = condition(get(done.server), "Unhealthy") or {}
    assert (phase(done.server), found.get("reason")) == ("Failed", "CreateFailed")
    return str(found["message"])


def reasons(done: Run) -> list[tuple[str, str]]:
    """Of each component's ResourcesDeployed."""
    found = [
        condition({"status": one}, "ResourcesDeployed") or {}
        for one in get(done.server)["status"]["componentStatus"]
    ]
    return [(str(one.get("status")), str(one.get("reason"))) for one in found]


MISSING = NoSuchResourceError("404 page not found", status=404)
NO_RIGHT = ForbiddenError(
    'jobs.batch is forbidden: User "system:serviceaccount:a:b" cannot create resource "jobs"', status=403
)
NO_QUOTA = ForbiddenError('jobs.batch "second" is forbidden: exceeded quota: small', status=403)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            MISSING,
            "second: this cluster serves no Job of batch/v1: "
            "install its CustomResourceDefinition, or correct apiVersion and kind",
        ),
        (
            NO_RIGHT,
            f"{NO_RIGHT.message}: grant get, list, watch, create and delete on it "
            'with a ClusterRole that has the label workload.codeflare.dev/wrapped: "true"',
        ),
        (NO_QUOTA, NO_QUOTA.message),
        (InvalidError("spec.template: Required value", status=422), "spec.template: Required value"),
    ],
)
async def test_the_message_has_the_problem_and_the_remedy(error: KubeError, text: str) -> None:
    done = await run(scenario(refusing(error)))
    assert message_of(done) == f"error creating components: {text}"
    assert "404" not in message_of(done)


@pytest.mark.parametrize("error", [MISSING, NO_RIGHT, InvalidError("bad", status=422)])
async def test_only_what_was_made_has_been_deleted(error: KubeError) -> None:
    done = await run(scenario(refusing(error)))
    assert reasons(done) == [
        ("False", "ComponentDeleted"),
        ("False", "ComponentCreationErrored"),
        ("False", "ComponentNotCreated"),
    ]
    assert [done.server.list(kind) for kind in (POD, JOB, DEPLOYMENT)] == [[], [], []]


async def test_without_an_answer_it_may_be_there() -> None:
    """The request may have been carried out: that is looked up before anything is declared."""
    done = await run(scenario(refusing(ConnectionLostError("reset"))))
    assert message_of(done) == "error creating components: reset"
    assert reasons(done) == [
        ("False", "ComponentDeleted"),
        ("False", "ComponentNotCreated"),
        ("False", "ComponentNotCreated"),
    ]
