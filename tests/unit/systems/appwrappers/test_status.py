"""The status of an AppWrapper, read by its types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from fournos.api.kinds import APPWRAPPER
from fournos.app.parts import TABLE
from fournos.engine.api.conditions import condition
from fournos.engine.kube.errors import (
    ConnectionLostError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NoSuchResourceError,
)
from fournos.engine.kube.resource import DEPLOYMENT, JOB, POD
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.metrics import Metrics
from fournos.systems.appwrappers import names
from fournos.systems.appwrappers.metrics import count_phase, report
from fournos.systems.appwrappers.part import appwrappers_controller
from fournos.systems.appwrappers.status import StatusDraft, component_status
from tests.unit.systems.appwrappers.actors import (
    NS,
    OWN,
    Controllers,
    deployment_template,
    get,
    job_template,
    phase,
    pod_template,
    submit,
)
from tests.unit.systems.appwrappers.test_lifecycle import scenario
from tests.unit.systems.clusters.test_settings import store
from tests.world.harness import Run, in_order, refusing, run
from tests.world.server import Server

NOW = datetime(2030, 1, 1, tzinfo=UTC)
EARLIER = {"lastTransitionTime": "2029-12-31T23:59:00Z", "reason": "R", "message": ""}


def draft(**status: Any) -> StatusDraft:
    return StatusDraft({"metadata": {"name": "aw"}, "status": status}, NOW)


def test_when_the_latest_of_several_conditions_changed() -> None:
    found = draft(conditions=[{"type": "PodsReady", "status": "False", **EARLIER}])
    assert found.since("PodsReady") == NOW - timedelta(minutes=1)
    found.condition("Unhealthy", "True", "R")
    assert found.since("PodsReady", "Unhealthy") == NOW
    assert found.found("Missing") is None and not found.is_false("Missing")


def test_one_component_is_read_without_the_others() -> None:
    """What another writer has spoiled in one entry hides no other."""
    good = {"name": "b", "kind": "Job", "apiVersion": "batch/v1", "podSets": []}
    found = component_status({"componentStatus": [{"name": 1}, good]}, 1)
    assert found is not None and found.name == "b"


# --- metrics -------------------------------------------------------------------------------------------
# The metrics of AppWrappers.


def test_appwrappers_by_phase() -> None:
    metrics = Metrics(TABLE)
    report(Caches({APPWRAPPER: store({"phase": "Running"}, {"phase": 7}, {"phase": "Running"}, {})}), metrics)
    values = [metrics.value("fournos_appwrappers", phase) for phase in ("Running", "New", "Failed")]
    assert values == [2, 2, 0]  # what another client has spoiled hides no other


async def test_each_phase_that_one_enters() -> None:
    """Under the published name, with its labels: one that fails once is Running twice."""
    metrics = Metrics(TABLE)
    story = scenario(
        lambda server: submit(server, pod_template("sample")), world=lambda: Controllers(fails={"sample"})
    )
    counting = appwrappers_controller(OWN, written=partial(count_phase, metrics))
    await run(replace(story, controller=counting))
    assert b'appwrapper_phase_total{namespace="team",phase="Running"} 2.0' in metrics.render()
    entered = ("Suspended", "Resuming", "Resetting", "Succeeded", "Failed")
    counts = [metrics.value("appwrapper_phase_total", NS, phase) for phase in entered]
    assert counts == [1, 2, 1, 1, 0]


# --- not created ---------------------------------------------------------------------------------------
# Components that cannot be made: the status and the events of each, with the remedy.

MIX = (pod_template("first"), job_template("second"), deployment_template("third"))


def refused(error: KubeError) -> Callable[[Server], None]:
    return in_order(refusing(JOB, error), lambda server: submit(server, *MIX, retryLimit="0"))


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
    done = await run(scenario(refused(error)))
    assert message_of(done) == f"error creating components: {text}"
    assert "404" not in message_of(done)


@pytest.mark.parametrize("error", [MISSING, NO_RIGHT, InvalidError("bad", status=422)])
async def test_only_what_was_made_has_been_deleted(error: KubeError) -> None:
    done = await run(scenario(refused(error)))
    assert reasons(done) == [
        ("False", "ComponentDeleted"),
        ("False", "ComponentCreationErrored"),
        ("False", "ComponentNotCreated"),
    ]
    assert [done.server.list(kind) for kind in (POD, JOB, DEPLOYMENT)] == [[], [], []]


async def test_without_an_answer_it_may_be_there() -> None:
    """The request may have been carried out: that is looked up before anything is declared."""
    done = await run(scenario(refused(ConnectionLostError("reset"))))
    assert message_of(done) == "error creating components: reset"
    assert reasons(done) == [
        ("False", "ComponentDeleted"),
        ("False", "ComponentNotCreated"),
        ("False", "ComponentNotCreated"),
    ]
