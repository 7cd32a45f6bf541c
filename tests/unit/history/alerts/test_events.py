"""Confirmed changes as Kubernetes Events: what they contain, and whom they are about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.errors import ForbiddenError, KubeError, ServerError
from fournos.engine.kube.kinds import EVENT
from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.runtime.events import MAX_NOTE
from fournos.history.alerts.due import Delivery, News, due
from fournos.history.alerts.events import Events, event, note
from fournos.history.alerts.receiver import NewsContext, SendOutcome
from fournos.history.records import Identity
from tests.history import a_run
from tests.unit.history.alerts.test_due import DROP, NOW, QUIET, judged, series
from tests.world.connection import Connection
from tests.world.server import Server, VirtualClock

JOB: Obj = {"metadata": {"namespace": "n", "name": "job-1", "uid": "12"}}
CONTEXT = NewsContext(a_run(1, identity=Identity("c", "n", "12")), a_run(0))


def drop(better: bool | None = True) -> News:
    (news,) = due(judged(series(*DROP, better=better)), [], NOW)
    return news


def receiver(
    server: Server, cluster: str = "c", found: tuple[Resource, Obj] | None = (FOURNOS_JOB, JOB)
) -> Events:
    return Events(Connection(server), lambda: cluster, lambda run: found, VirtualClock(), "pod-0")


@pytest.mark.parametrize(
    ("better", "type_", "reason"),
    [
        (True, "Warning", "RegressionConfirmed"),
        (False, "Normal", "ImprovementConfirmed"),
        (None, "Normal", "ChangeConfirmed"),
    ],
)
def test_what_changed_and_how_to_look(better: bool | None, type_: str, reason: str) -> None:
    made: dict[str, Any] = event(drop(better), CONTEXT, FOURNOS_JOB, JOB, NOW, "pod-0")
    assert (made["type"], made["reason"]) == (type_, reason)
    assert made["regarding"] == {
        "apiVersion": FOURNOS_JOB.api_version, "kind": "FournosJob", "namespace": "n", "name": "job-1",
        "uid": "12",
    }  # fmt: skip
    assert (made["metadata"]["namespace"], made["reportingInstance"]) == ("n", "pod-0")
    assert "tput: -40." in made["note"]
    assert f"compared with {len(QUIET)} earlier runs" in made["note"]
    assert made["note"].endswith("See: fournos compare -n n job-0 job-1")


def test_the_name_is_the_same_each_time_and_valid() -> None:
    name = event(drop(), CONTEXT, FOURNOS_JOB, JOB, NOW, "pod-0")["metadata"]["name"]
    assert name == event(drop(), CONTEXT, FOURNOS_JOB, JOB, NOW.replace(day=21), "pod-1")["metadata"]["name"]
    long: Obj = {"metadata": {**JOB["metadata"], "name": f"{'x' * 199}-y"}}
    made = event(drop(), CONTEXT, FOURNOS_JOB, long, NOW, "pod-0")["metadata"]["name"]
    assert made.startswith(f"{'x' * 199}.")


def test_the_command_is_there_however_many_kpis_changed() -> None:
    news = drop()
    many = tuple(replace(news.changes[0], kpi_id=f"kpi-{number}") for number in range(5))
    assert "; and 2 more KPIs. See: fournos compare" in note(replace(news, changes=many), CONTEXT)
    huge = tuple(replace(one, kpi_id="k" * 900, labels={"l": "v" * 900}) for one in many)
    text = note(replace(news, changes=huge), CONTEXT)
    assert len(text) == MAX_NOTE
    assert text.endswith("…. See: fournos compare -n n job-0 job-1")


def test_those_of_another_cluster_and_silent_series_are_left_to_others() -> None:
    (silent,) = due(judged(series()), [], NOW.replace(day=25))
    assert receiver(Server()).takes(drop())
    assert not receiver(Server()).takes(silent)
    assert not receiver(Server(), cluster="d").takes(drop())
    assert not receiver(Server(), cluster="").takes(drop())


async def test_it_is_created_once() -> None:
    server = Server()
    assert await receiver(server).send(drop(), CONTEXT) == SendOutcome()
    assert await receiver(server).send(drop(), CONTEXT) == SendOutcome(), "as after a crash before the mark"
    (made,) = server.list(EVENT)
    assert made["reason"] == "RegressionConfirmed"


async def test_a_job_that_is_gone_has_no_event() -> None:
    server = Server()
    outcome = await receiver(server, found=None).send(drop(), CONTEXT)
    assert (outcome.delivery, outcome.failure) == (Delivery.GONE, "")
    assert (await receiver(server).send(drop(), NewsContext(None))).gone, "its row has expired"
    assert server.list(EVENT) == []


@pytest.mark.parametrize(
    ("error", "down"),
    [(ServerError("not now", status=503), True), (ForbiddenError("may not", status=403), False)],
)
async def test_a_failure_is_told_from_an_outage(error: KubeError, down: bool) -> None:
    server = Server()
    server.refusals.append(lambda verb, resource, obj: error)
    outcome = await receiver(server).send(drop(), CONTEXT)
    assert (outcome.failure, outcome.down, outcome.delivery) == (error.message, down, Delivery.FAILED)
