"""The logs of a job that a worker cluster runs, with the identities of the command line's test."""

from __future__ import annotations

import pytest

from fournos.client import AsyncClient, FournosError, MissingError
from fournos.engine.kube.resource import SECRET
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.multikueue.names import LOGS_OF
from tests.unit.cli import test_worker_logs
from tests.unit.cli.objects import NS
from tests.unit.cli.test_worker_logs import OWN, WHOLE, Identities, allow, secret

fleet = test_worker_logs.fleet


def client(fleet: Identities) -> AsyncClient:
    found = AsyncClient(api=fleet.api, namespace=NS)  # type: ignore[arg-type]
    found.dial = fleet._dial
    return found


async def test_they_are_read_on_the_worker_with_the_identity_for_logs(fleet: Identities) -> None:
    fleet.api.add(SECRET, secret(OWN, **{LOGS_OF: WHOLE}))
    allow(fleet, OWN)
    job = await client(fleet).job("one")
    found = [(line.source, line.text) async for line in job.logs()]
    assert found == [("prepare", "from the worker")]
    assert fleet.dialled == (OWN,)


async def test_without_the_right_to_read_them_the_error_names_the_right(fleet: Identities) -> None:
    job = await client(fleet).job("one")
    with pytest.raises(FournosError, match="you may not get Secret") as error:
        [line async for line in job.logs()]
    assert "docs/multikueue.md" in error.value.fix


async def test_a_job_on_no_worker_yet(fleet: Identities) -> None:
    fleet.api.objects[WORKLOAD].clear()
    job = await client(fleet).job("one")
    with pytest.raises(MissingError, match="on no worker yet"):
        [line async for line in job.logs()]
