"""The requests of one job's life, each by name: docs/decisions/0016 says what each is for.

The rest of docs/performance.md's count is Events and Kueue's share.
"""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.kube.resource import Key, Resource
from tests.unit.systems.jobs.actors import Tekton, submit
from tests.unit.systems.jobs.test_lifecycle import scenario
from tests.world.connection import Connection
from tests.world.harness import Run, run

STATUS = "patch fournosjobs.fournos.dev/status bench/job"
METADATA = "patch fournosjobs.fournos.dev bench/job"

RESOLVED = (
    STATUS,  # Resolving
    "create jobs.batch bench/job-resolve",
    STATUS,  # Pending: proves what the resolver wrote
)
STARTED = (
    "create workloads.kueue.x-k8s.io bench/job",
    STATUS,  # Admitted: claims the attempt
    METADATA,  # the finalizer, before the run
    "get secrets psap-secrets/kubeconfig-cluster-1",
    "create secrets bench/job-kubeconfig",
    "create pipelineruns.tekton.dev bench/job",
)
RUNNING = (
    "patch workloads.kueue.x-k8s.io/status bench/job",  # PodsReady
    STATUS,  # Running
)
ENDED = (
    "delete workloads.kueue.x-k8s.io bench/job",  # the quota, before the end is declared
    STATUS,  # Succeeded
    METADATA,  # no finalizer, after the end
)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All requests in their order; a read has no number among the writes of a `Connection`."""
    found: list[str] = []
    write, get, list_ = Connection._write, Connection.get, Connection.list

    def written(self: Connection, what: str, *rest: Any) -> Any:
        found.append(what)
        return write(self, what, *rest)

    async def read(self: Connection, resource: Resource, key: Key) -> Any:
        found.append(f"get {resource} {key}")
        return await get(self, resource, key)

    async def listed(self: Connection, resource: Resource, **options: Any) -> Any:
        found.append(f"list {resource}")
        return await list_(self, resource, **options)

    monkeypatch.setattr(Connection, "_write", written)
    monkeypatch.setattr(Connection, "get", read)
    monkeypatch.setattr(Connection, "list", listed)
    return found


class InstantTekton(Tekton):
    """Ends a run in the round in which it starts it: the operator never sees it running."""

    def __call__(self, server: Any) -> None:
        super().__call__(server)
        super().__call__(server)


async def test_a_job(requests: list[str]) -> None:
    await run(scenario(submit))
    assert tuple(requests) == (*RESOLVED, *STARTED, *RUNNING, *ENDED)


async def test_a_job_that_is_over_at_once(requests: list[str]) -> None:
    await run(scenario(submit, tekton=InstantTekton))
    assert tuple(requests) == (*RESOLVED, *STARTED, *ENDED)


async def test_a_job_without_a_cluster(requests: list[str]) -> None:
    await run(scenario(lambda server: submit(server, cluster=None, exclusive=False, clusterless=True)))
    written = [one for one in STARTED if "workloads" not in one and "secrets" not in one]
    assert tuple(requests) == (*RESOLVED[:2], *written, STATUS, *ENDED[1:])


@pytest.mark.parametrize("lag", [1, 2, 3])
async def test_caches_that_lag_cost_refused_writes_but_create_nothing_twice(
    lag: int, requests: list[str]
) -> None:
    await Run(scenario(submit), lag=lag).finish()
    made = [one for one in requests if not one.startswith("patch")]
    expected = [one for one in (*RESOLVED, *STARTED, *RUNNING, *ENDED) if not one.startswith("patch")]
    assert made == expected
