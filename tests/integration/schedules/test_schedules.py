"""Schedules on a real API server: the rules, a kill in the middle of each minute, the author's right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.engine.api.times import parse_time
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.kinds import LEASE as LEASES
from fournos.engine.kube.kinds import MUTATING_WEBHOOKS
from fournos.engine.kube.resource import Key, Obj
from fournos.systems.schedules.names import AUTHOR_ANNOTATION, LEASE, TIME_ANNOTATION, TRIGGER_ANNOTATION
from fournos.systems.schedules.trigger import Trigger
from tests.integration.conftest import Server
from tests.integration.jobs.operator import Operator
from tests.integration.stage import Stage
from tests.integration.webhook.conftest import address_for
from tests.unit.systems.schedules.actors import ENGINE, LOCK_TEMPLATE, schedule
from tests.unit.systems.schedules.cases import CREATIONS
from tests.waiting import free_port

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces"


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
    with suppress(NotFoundError):  # a test without webhooks
        await client.delete(MUTATING_WEBHOOKS, Key("", f"fournos-schedules-{namespace}"))


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
    assert status == 201, (rule, answer)


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


async def test_the_right_of_the_author(server: Server, stage: ScheduleStage, kubeconfig: Path) -> None:
    port = free_port()
    url = f"https://{address_for(kubeconfig)}:{port}"
    await stage.launch(WEBHOOK_URL=url, WEBHOOK_PORT=str(port), SCHEDULES_AUTHORS_REQUIRED="true")
    await _grant(server, stage.namespace, "schedules", "fournosschedules")
    ann = {"Impersonate-User": "ann"}
    made = here(schedule(), stage.namespace)

    async def refused() -> bool:
        status, answer = await server("POST", path(stage.namespace), made, headers=ann, dryRun="All")
        return status == 422 and "ann may not create FournosJobs" in answer["message"]

    await stage.until(refused, "a user without the right to jobs creates a schedule")
    await _grant(server, stage.namespace, "jobs", "fournosjobs")

    async def created() -> Any:
        status, answer = await server("POST", path(stage.namespace), made, headers=ann)
        return answer if status == 201 else None

    stored = await stage.until(created, "a user with both rights creates no schedule")
    assert '"name": "ann"' in stored["metadata"]["annotations"][AUTHOR_ANNOTATION]
    locked = here(schedule(name="locked", jobTemplate=LOCK_TEMPLATE), stage.namespace)
    status, answer = await server("POST", path(stage.namespace), locked, headers=ann, dryRun="All")
    assert status == 422 and "ann may not use WorkloadPriorityClass fournos-lock-held" in answer["message"]
    no_cluster = {"spec": {"executionEngine": ENGINE, "exclusive": True}}
    wrong = here(schedule(name="wrong", jobTemplate=no_cluster), stage.namespace)
    status, answer = await server("POST", path(stage.namespace), wrong, headers=ann, dryRun="All")
    assert status == 422
    assert [cause["field"] for cause in answer["details"]["causes"]] == ["spec.jobTemplate.spec.cluster"]
    await trigger(stage, "with-right")
    await stage.until(stage.jobs, "no job for an author who has the right")
    (job,) = await stage.jobs()
    await stage.patch(
        FOURNOS_JOB, job["metadata"]["name"], {"status": {"phase": "Succeeded"}}, subresource="status"
    )
    await server("DELETE", f"{RBAC}/{stage.namespace}/rolebindings/jobs")
    await trigger(stage, "without")

    async def suspended() -> Any:
        return (await stage.get(FOURNOS_SCHEDULE, "nightly"))["spec"].get("suspend")

    pause = await stage.until(suspended, "a lost right does not suspend the schedule")
    assert pause == {"reason": "its author ann may not create FournosJobs any more"}
    assert len(await stage.jobs()) == 1


async def test_the_rights_to_stop_and_to_delete(
    server: Server, stage: ScheduleStage, kubeconfig: Path
) -> None:
    port = free_port()
    url = f"https://{address_for(kubeconfig)}:{port}"
    await stage.launch(WEBHOOK_URL=url, WEBHOOK_PORT=str(port), SCHEDULES_AUTHORS_REQUIRED="true")
    await _grant(server, stage.namespace, "schedules", "fournosschedules")
    await _grant(server, stage.namespace, "jobs", "fournosjobs", verbs=("create",))
    ann = {"Impersonate-User": "ann"}
    made = here(schedule(), stage.namespace)

    async def stored() -> bool:
        status, answer = await server("POST", path(stage.namespace), made, headers=ann, dryRun="All")
        return status == 201 and AUTHOR_ANNOTATION in answer["metadata"].get("annotations", {})

    await stage.until(stored, "a user who may create jobs creates no schedule")
    for spec, verb in (
        ({"concurrencyPolicy": "Replace"}, "patch"),
        ({"historyLimits": {"failed": 1}}, "delete"),
    ):
        ending = here(schedule(**spec), stage.namespace)
        status, answer = await server("POST", path(stage.namespace), ending, headers=ann, dryRun="All")
        assert status == 422 and f"ann may not {verb} FournosJobs" in answer["message"]


async def trigger(stage: ScheduleStage, name: str) -> None:
    """A fire by hand, of an administrator, who does not become the author; it saves the wait for a minute."""
    change = {"metadata": {"annotations": {TRIGGER_ANNOTATION: Trigger(name).text()}}}
    await stage.patch(FOURNOS_SCHEDULE, "nightly", change)


async def _grant(
    server: Server, namespace: str, name: str, resource: str, *, verbs: Sequence[str] = ("*",)
) -> None:
    """Lets ann do this with one resource."""
    rule = {"apiGroups": ["fournos.dev"], "resources": [resource], "verbs": list(verbs)}
    role = {"kind": "Role", "apiGroup": "rbac.authorization.k8s.io", "name": name}
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}
    bodies = {
        "roles": {"kind": "Role", "rules": [rule]},
        "rolebindings": {"kind": "RoleBinding", "roleRef": role, "subjects": [subject]},
    }
    for plural, body in bodies.items():
        whole = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}, **body}
        status, answer = await server("POST", f"{RBAC}/{namespace}/{plural}", whole)
        assert status == 201, answer
