"""fournos logs of a dispatched job: whose identity it reads them with on the worker."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN, TASK_RUN
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.resource import POD, SECRET, Key, Obj, Resource
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.multikueue.config import MULTIKUEUE_CLUSTER
from fournos.systems.multikueue.names import LOGS_OF
from tests.fakes.clusters import kubeconfig
from tests.unit.cli.api import Api
from tests.unit.cli.objects import ago, job, pod, run, task_run
from tests.unit.cli.test_dispatch import Fleet, Worker, dispatched, plain

WHOLE, OWN, KUEUE = "w1", "w1-logs", "kueue-system"
MADE = "have Secret kueue-system/w1-logs made, and its get granted to you"


class Manager(Api):
    """Lets its user get these Secrets."""

    readable: tuple[str, ...] = ()

    async def get(self, resource: Resource, key: Key) -> Obj:
        if resource is SECRET and key.name not in self.readable:
            raise ForbiddenError(f'secrets "{key.name}" is forbidden', status=403)
        return await super().get(resource, key)


class Identities(Fleet):
    """Tokens are named like the Secrets they are in; `blind` are those that may not read logs."""

    dialled: tuple[str, ...] = ()
    blind: tuple[str, ...] = ()

    @asynccontextmanager
    async def _dial(self, credentials: Any) -> AsyncIterator[Any]:
        headers, _ = await credentials.proof()
        who = headers["Authorization"].removeprefix("Bearer ")
        self.dialled += (who,)
        if who in self.blind:
            self.worker.forbidden = {("pods", "get")}
        yield self.worker


def secret(name: str, **labels: str) -> Obj:
    data = {"kubeconfig": base64.b64encode(kubeconfig("https://w1.example.com", token=name)).decode()}
    found = plain(SECRET, name, namespace=KUEUE, data=data)
    found["metadata"]["labels"] = labels  # type: ignore[index]
    return found


@pytest.fixture
def fleet() -> Identities:
    """A job that has run on w1, whose Secret there is; nobody may get any."""
    manager, worker = Manager(), Worker()
    source = {"clusterSource": {"kubeConfig": {"location": WHOLE, "locationType": "Secret"}}}
    manager.add(MULTIKUEUE_CLUSTER, plain(MULTIKUEUE_CLUSTER, "w1", spec=source))
    manager.add(SECRET, secret(WHOLE))
    mine = job("one", status={"pipelineRun": "one"})
    mine["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    manager.add(FOURNOS_JOB, mine)
    taken = dispatched("one")
    taken["metadata"]["ownerReferences"][0]["uid"] = mine["metadata"]["uid"]
    manager.add(WORKLOAD, taken)
    worker.add(FOURNOS_JOB, job("one", "Succeeded", status={"pipelineRun": "one"}))
    worker.add(PIPELINE_RUN, run())
    worker.add(TASK_RUN, task_run("prepare"))
    worker.add(POD, pod("prepare", "step-only", started=ago(minutes=5)))
    worker.log_lines["one-prepare-pod", "step-only"] = ["from the worker"]
    return Identities(manager, worker)


def allow(fleet: Identities, *names: str) -> None:
    assert isinstance(fleet.api, Manager)
    fleet.api.readable = names


@pytest.mark.parametrize("allowed", [(OWN,), (OWN, WHOLE)])
def test_the_identity_for_logs_comes_first_and_is_enough(fleet: Identities, allowed: tuple[str, ...]) -> None:
    fleet.api.add(SECRET, secret(OWN, **{LOGS_OF: WHOLE}))
    allow(fleet, *allowed)
    shown = fleet("logs", "one")
    assert (shown.exit_code, shown.stdout.splitlines()) == (0, ["[prepare] from the worker"]), shown.stderr
    assert fleet.dialled == (OWN,)


@pytest.mark.parametrize("allowed", [(WHOLE,), (OWN, WHOLE)], ids=["not ours to see", "not there"])
def test_without_it_the_worker_s_own_is_used(fleet: Identities, allowed: tuple[str, ...]) -> None:
    allow(fleet, *allowed)
    assert fleet("logs", "one").exit_code == 0
    assert fleet.dialled == (WHOLE,)


def test_a_secret_of_that_name_that_is_another_worker_s_is_not_used(fleet: Identities) -> None:
    fleet.api.add(SECRET, secret(OWN))
    allow(fleet, OWN, WHOLE)
    assert fleet("logs", "one").exit_code == 0
    assert fleet.dialled == (WHOLE,)


@pytest.mark.parametrize(
    ("allowed", "made", "said"),
    [
        ((), True, "you may not get Secret kueue-system/w1-logs, and"),
        ((OWN,), False, "there is no Secret kueue-system/w1-logs, and"),
        ((OWN,), True, f"Secret kueue-system/w1-logs lacks the label {LOGS_OF}=w1, and"),
    ],
)
def test_what_to_have_granted_when_neither_can_be_read(
    fleet: Identities, allowed: tuple[str, ...], made: bool, said: str
) -> None:
    if made:
        fleet.api.add(SECRET, secret(OWN))
    allow(fleet, *allowed)
    result = fleet("logs", "one")
    text = " ".join(result.stderr.split())
    assert result.exit_code == 6 and f"{said} you may not get Secret kueue-system/w1" in text and MADE in text
    assert fleet.dialled == ()


def test_an_identity_that_may_not_read_logs_is_named_and_no_pod_is_reported_gone(
    fleet: Identities,
) -> None:
    allow(fleet, OWN, WHOLE)
    fleet.blind = (WHOLE, OWN)
    result = fleet("logs", "one")
    text = " ".join(result.stderr.split())
    assert result.exit_code == 6 and MADE in text
    assert "the identity in Secret kueue-system/w1 may not read logs on w1" in text
    fleet.api.add(SECRET, secret(OWN, **{LOGS_OF: WHOLE}))
    text = " ".join(fleet("logs", "one").stderr.split())
    assert "Secret kueue-system/w1-logs may not" in text and "apply deploy/multikueue/worker" in text
