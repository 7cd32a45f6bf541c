"""Schedules on a real API server: the rules, and a kill in the middle of each minute."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.engine.api.values import parse_time
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import LEASE as LEASES
from fournos.engine.kube.resource import Obj
from fournos.systems.schedules.names import LEASE, TIME_ANNOTATION
from tests.integration.conftest import Server
from tests.integration.jobs.operator import Operator
from tests.integration.stage import Stage
from tests.unit.systems.schedules.actors import CREATIONS, schedule


class ScheduleStage(Stage):
    """Schedules in the namespace of one test, and their operator."""

    def __init__(self, namespace: str, client: Client, kubeconfig: Path, log: Path) -> None:
        super().__init__(namespace, client)
        self._kubeconfig = kubeconfig
        self._log = log
        self.operator: Operator | None = None

    async def launch(self, **settings: str) -> None:
        self.operator = Operator(
            self._kubeconfig, self.namespace, self._log, enable="schedules", settings=settings
        )
        await self.operator.ready()

    async def kill(self) -> None:
        """kill -9, and its lease is taken away."""
        assert self.operator is not None
        self.operator.kill()
        with suppress(NotFoundError):  # killed before it led
            await self.client.delete(LEASES, self.key(LEASE))

    def logs(self) -> str:
        return self.operator.tail() if self.operator is not None else ""

    async def jobs(self) -> list[Obj]:
        return list((await self.client.list(FOURNOS_JOB, namespace=self.namespace)).items)

    async def status(self) -> dict[str, Any]:
        return dict((await self.get(FOURNOS_SCHEDULE, "nightly")).get("status") or {})


@pytest.fixture
async def stage(
    client: Client, crds: None, namespace: str, kubeconfig: Path, tmp_path: Path
) -> AsyncIterator[ScheduleStage]:
    made = ScheduleStage(namespace, client, kubeconfig, tmp_path / "operator.log")
    yield made
    if made.operator is not None:
        await made.kill()


def path(namespace: str) -> str:
    return f"/apis/fournos.dev/v1/namespaces/{namespace}/fournosschedules"


def here(made: Any, namespace: str) -> dict[str, Any]:
    return {**made, "metadata": {**made["metadata"], "namespace": namespace}}


@pytest.mark.parametrize(("rule", "bad", "good"), CREATIONS)
async def test_the_api_server_judges_as_the_rules_in_python(
    server: Server, crds: None, namespace: str, rule: str, bad: Any, good: Any
) -> None:
    status, answer = await server("POST", path(namespace), here(bad, namespace), dryRun="All")
    assert status == 422, (rule, answer)
    status, answer = await server("POST", path(namespace), here(good, namespace), dryRun="All")
    assert status == 201, (rule, answer["message"])


async def test_each_minute_has_one_job_whatever_is_killed(stage: ScheduleStage) -> None:
    """kill -9 as soon as a fire is claimed, and as soon as its job is there, in two minutes of a schedule."""
    made = schedule(schedules=["* * * * *"], concurrencyPolicy="Allow", startingDeadlineSeconds=50)
    await stage.client.create(FOURNOS_SCHEDULE, here(made, stage.namespace))
    begun = datetime.now(UTC)
    await stage.launch()

    async def claimed() -> Any:
        return (await stage.status()).get("active")

    await stage.until(claimed, "no fire was taken up")
    await stage.kill()
    await stage.launch()
    (first,) = await stage.until(stage.jobs, "the fire that was taken up has no job")
    await stage.kill()
    await stage.launch()

    async def two() -> bool:
        return len(await stage.jobs()) >= 2

    await stage.until(two, "the next minute has no job")
    times = [parse_time(job["metadata"]["annotations"][TIME_ANNOTATION]) for job in await stage.jobs()]
    assert len(set(times)) == len(times) and min(times) > begun.replace(second=0, microsecond=0)
    ended = {"status": {"phase": "Succeeded"}}
    await stage.patch(FOURNOS_JOB, first["metadata"]["name"], ended, subresource="status")

    async def settled() -> bool:
        return (await stage.status()).get("lastFire", {}).get("outcome") == "Succeeded"

    await stage.until(settled, "the end of the first job is not in the status")
    await stage.client.delete(FOURNOS_SCHEDULE, stage.key("nightly"))
    left = {job["metadata"]["name"] for job in await stage.jobs()}
    await asyncio.sleep(1)
    assert {job["metadata"]["name"] for job in await stage.jobs()} == left, "what runs goes on"
