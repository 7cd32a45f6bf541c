"""Each malformed object is refused, or ends with a message; no pass raises, none blocks another.

`FOURNOS_FUZZ=1000` tries so many of each kind.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
import pytest

from fournos.app.parts import PARTS, TABLE, kinds
from fournos.engine.api.crd import crd
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import KubeError, NotFoundError, TransientError
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.manager import Manager
from fournos.engine.runtime.metrics import Metrics
from fournos.systems.appwrappers.names import MANAGED_BY_US as APPWRAPPER_OURS
from fournos.systems.appwrappers.settings import AppWrapperSettings
from fournos.systems.clusters.settings import ClusterSettings
from fournos.systems.jobs.decide import MANAGED_BY_US as JOB_OURS
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.miniclusters.names import MANAGED_BY_US as MINICLUSTER_OURS
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.schedules.settings import ScheduleSettings
from tests.integration.conftest import Server
from tests.integration.malformed.objects import nested, odd
from tests.waiting import LIMIT, until

COUNT = int(os.environ.get("FOURNOS_FUZZ", "25"))
PATIENCE = LIMIT + COUNT / 5
POD = {"spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": POD}}


def wrapped(template: Any, **component: Any) -> Any:
    return {"components": [{"template": template, **component}]}


SOUND: dict[str, Any] = {
    "FournosJob": {"cluster": "c", "executionEngine": {"forge": {"project": "p"}}},
    "FournosSchedule": {
        "schedules": ["0 2 * * *"],
        "timeZone": "Europe/Berlin",
        "jobTemplate": {"spec": {"cluster": "c", "executionEngine": {"forge": {"project": "p"}}}},
    },
    "FournosCluster": {"kubeconfigSecret": "none"},
    "AppWrapper": {**wrapped(JOB), "suspend": True},
    "MiniCluster": {"size": 1, "containers": [{"image": "x", "command": "true"}]},
}
MALFORMED: dict[str, list[Any]] = {
    "FournosJob": [{"cluster": "c", "executionEngine": {"forge": nested(depth)}} for depth in (50, 100, 200)]
    + [{"cluster": "c", "executionEngine": {"forge": {"x" * 1000: "y" * 900_000}}}]
    + [{"cluster": "c", "executionEngine": {}, "env": {f"E{n}": "x" * 1000 for n in range(500)}}],
    "FournosSchedule": [
        {"schedules": schedules, "timeZone": zone, "jobTemplate": {"spec": {"params": params}}}
        for schedules, zone, params in (
            (["0 0 30 2 *"], "Etc/UTC", {}),
            (["* * * * *"] * 16, "Mars/Base", {}),
            (["0 2 L * *"], "Europe/Berlin", {}),
            (["59 23 31 12 7"], "../../etc/passwd", {}),
            (["@yearly"], "Pacific/Apia", {"{{time}}": "{{date}}" * 1000}),
        )
    ],
    "FournosCluster": [{"kubeconfigSecret": "none", "owner": "\x1b[2J" * 9}],
    "AppWrapper": [
        wrapped({**JOB, "spec": {"template": POD, "deep": nested(depth)}}) for depth in (50, 100, 200)
    ]
    + [
        wrapped(None),
        wrapped([]),
        wrapped("x"),
        wrapped({}),
        wrapped({**JOB, "metadata": None}),
        wrapped({**JOB, "metadata": {"name": ["x"]}}),
        wrapped({**JOB, "spec": None}),
        wrapped({**JOB, "spec": {"template": "x"}}),
        wrapped({**JOB, "spec": {"template": {"spec": {"containers": {"a": 1}}}}}),
        wrapped({**JOB, "kind": "AppWrapper", "apiVersion": "workload.codeflare.dev/v1beta2"}),
        wrapped({**JOB, "kind": "Nothing"}, podSets=[{"path": "template.spec..[[", "replicas": 2**31 - 1}]),
        wrapped(JOB, podSets=[{"path": "." * 5000}], podSetInfos=[{}] * 50),
        {"components": [{"template": JOB}] * 500},
    ],
    "MiniCluster": [
        {"size": 2**31 - 1, "containers": [{"image": "x", "command": "true"}]},
        {"size": 1, "containers": [{"image": "x", "command": "$(" * 50_000}]},
        {"size": 1, "containers": [{"image": "x", "commands": {"pre": "\x00'\"`$(\n" * 1000}}]},
        {"size": 1, "containers": [{"image": "x", "resources": {"limits": {"cpu": "9" * 5000}}}]},
        {"size": 1, "containers": [{"image": "x", "environment": {"a=b\n": "c"}}] * 40},
    ],
}

MANAGED_BY_US: dict[str, frozenset[str | None]] = {
    "FournosJob": JOB_OURS,
    "FournosSchedule": frozenset({None}),
    "FournosCluster": frozenset({None}),
    "AppWrapper": APPWRAPPER_OURS,
    "MiniCluster": MINICLUSTER_OURS,
}
"""The documented values of `spec.managedBy` for which the operator writes the status. An object with any
other value belongs to another controller, so that it has no status here."""


def settings_of(namespace: str) -> dict[str, Any]:
    return {
        "jobs": JobSettings(
            namespace=namespace,
            secrets_namespace=namespace,
            resolve_job_template="dev/mock-resolve/resolve_job.yaml",
        ),
        "schedules": ScheduleSettings(namespace=namespace),
        "clusters": ClusterSettings(
            namespace=namespace,
            secrets_namespace=namespace,
            execution_namespace=namespace,
            kueue_cluster_queue_name=namespace,
        ),
        "appwrappers": AppWrapperSettings(namespace=namespace),
        "miniclusters": MiniClusterSettings(namespace=namespace),
    }


@asynccontextmanager
async def operating(client: Client, namespace: str) -> AsyncIterator[Metrics]:
    metrics, clock = Metrics(TABLE), SystemClock()
    managers: list[Manager] = []

    def wake(controller: str, key: Key) -> None:
        for manager in managers:
            if any(controller == running.controller.name for running in manager._running):
                manager.wake(controller, key)

    tasks = []
    for part, its in settings_of(namespace).items():
        running = PARTS[part].start(its, clock, metrics, wake)
        manager = Manager(client, running.controllers, clock=clock, metrics=metrics)
        running.started(manager)
        managers.append(manager)
        tasks += [asyncio.create_task(job()) for job in running.background.values()]
    for manager in managers:
        tasks.append(asyncio.create_task(manager.informers.watch()))
    for manager in managers:
        await asyncio.wait_for(manager.informers.synced(), LIMIT)
        tasks.append(asyncio.create_task(manager.work()))
    try:
        yield metrics
        assert not [task for task in tasks if task.done()]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until_none(found: Callable[[], Awaitable[list[Any]]], what: str) -> None:
    """Waits until there is nothing left of these."""
    left: list[Any] = []

    async def none() -> bool:
        left[:] = await found()
        return not left

    await until(none, lambda: f"{what}: {left}", limit=PATIENCE, pause=0.5)


async def make(client: Client, kind: Resource, obj: Obj) -> str | None:
    """Why it was refused, if it was."""
    try:
        await client.create(kind, obj)
    except TransientError:
        raise
    except KubeError as error:
        assert str(error).strip()
        return str(error)
    return None


def bugs(metrics: Metrics) -> dict[str, float]:
    text = metrics.render().decode()
    return {
        line: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line.startswith("fournos_reconciles_total") and 'result="bug"' in line
    }


@pytest.mark.parametrize(
    "definition", [definition for definition, _ in kinds()], ids=lambda definition: definition.resource.kind
)
async def test_no_malformed_object_affects_others(
    client: Client, crds: None, namespace: str, definition: Any, caplog: pytest.LogCaptureFixture
) -> None:
    kind = definition.resource
    (rules,) = (rules for found, rules in kinds() if found is definition)
    sound = SOUND[kind.kind]
    objects = odd(crd(definition, rules=rules), sound, MALFORMED[kind.kind], COUNT)
    head = {"apiVersion": kind.api_version, "kind": kind.kind}

    def named(obj: Any, name: str) -> Any:
        return {**head, **obj, "metadata": {**obj["metadata"], "name": name, "namespace": namespace}}

    async with operating(client, namespace) as metrics:
        began = asyncio.get_running_loop().time()
        turn = asyncio.Semaphore(8)

        async def one(number: int, obj: Any) -> str | None:
            async with turn:
                return await make(client, kind, named(obj, f"odd-{number}"))

        answers = await asyncio.gather(*(one(*entry) for entry in enumerate(objects)))
        taken = [number for number, answer in enumerate(answers) if answer is None]
        assert await make(client, kind, named({"metadata": {}, "spec": sound}, "sound")) is None
        without = await make(client, kind, named({"metadata": {}}, "without-spec"))
        assert without is None or "is invalid: spec: Required" in without or "spec.components" in without

        def ours(obj: Obj) -> bool:
            return (obj.get("spec") or {}).get("managedBy") in MANAGED_BY_US[kind.kind]

        async def unreported() -> list[str]:
            found = (await client.list(kind, namespace=namespace)).items
            return [one["metadata"]["name"] for one in found if ours(one) and not one.get("status")]

        await until_none(unreported, "nothing is said of")
        others = [one for one in (await client.list(kind, namespace=namespace)).items if not ours(one)]
        assert not [one["metadata"]["name"] for one in others if one.get("status")], "another controller's"
        for name in ("sound", "without-spec", *(f"odd-{number}" for number in taken)):
            with suppress(NotFoundError):  # a FournosCluster whose Secret is not there goes by itself
                await client.delete(kind, Key(namespace, name))

        async def left() -> list[str]:
            found = (await client.list(kind, namespace=namespace)).items
            return [one["metadata"]["name"] for one in found]

        await until_none(left, "not gone")
        assert not bugs(metrics), [r.message for r in caplog.records if r.exc_info][:3]
        seconds = asyncio.get_running_loop().time() - began
    refused = len(objects) - len(taken)
    counts = f"{len(objects)} tried, {refused} refused, {len(taken)} taken, {len(others)} not ours"
    print(f"{kind.kind}: {counts}, {seconds:.0f} s")
    assert taken and len(taken) < len(objects), "both happen"


def deep(kind: str, levels: int) -> bytes:
    """The spec of a sound object with a part nested so deep, as JSON."""
    nest = b'{"a":' * levels + b"1" + b"}" * levels
    if kind == "FournosJob":
        return b'{"owner":"o","cluster":"c","executionEngine":{"forge":%s}}' % nest
    template = b'{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},"spec":%s}' % nest
    return b'{"suspend":true,"components":[{"template":%s}]}' % template


@pytest.mark.parametrize("kind", ["FournosJob", "AppWrapper"])
async def test_an_object_nested_too_deep_to_be_read_hides_no_other(
    client: Client, server: Server, crds: None, namespace: str, kind: str
) -> None:
    (definition,) = (definition for definition, _ in kinds() if definition.resource.kind == kind)
    resource = definition.resource
    head = {"apiVersion": resource.api_version, "kind": kind}

    async def add(name: str, spec: bytes) -> None:
        start = orjson.dumps({**head, "metadata": {"name": name, "namespace": namespace}})
        path = resource.path(namespace=namespace)
        assert await server.post(path, start[:-1] + b',"spec":' + spec + b"}") == 201

    async def there() -> list[Obj]:
        return list((await client.list(resource, namespace=namespace)).items)

    async def unreported() -> list[str]:
        return [one["metadata"]["name"] for one in await there() if not one.get("status")]

    await add("listed", deep(kind, 9000))
    async with operating(client, namespace) as metrics:
        for levels in (300, 900, 1500, 9000):
            await add(f"watched-{levels}", deep(kind, levels))
        await add("sound", orjson.dumps(SOUND[kind] | ({"owner": "o"} if kind == "FournosJob" else {})))
        await until_none(unreported, "nothing is said of")
        for one in await there():
            await client.delete(resource, key_of(one))
        await until_none(there, "not gone")
        assert not bugs(metrics)
