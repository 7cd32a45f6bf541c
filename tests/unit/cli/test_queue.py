"""fournos queue: the order, the reasons, and what may not be seen."""

from __future__ import annotations

import json
import re

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.client import AsyncClient
from fournos.engine.kube.errors import NoSuchResourceError
from fournos.engine.queueing.kinds import LOCAL_QUEUE
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NS, ago, job, workload
from tests.unit.cli.test_explain import world


def full() -> Api:
    holder = job("holder", "Running", status={"cluster": "cluster-1"})
    other = workload("build", priority=5, created=ago(minutes=3))
    other["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "build", "uid": "x", "controller": True}]
    return world(
        holder,
        job("one", "Pending"),
        workload("one", cluster="cluster-1", created=ago(minutes=2)),
        job("two", "Pending", spec={"suspend": True, "owner": "me"}),
        workload("two", created=ago(minutes=1)),
        other,
    )


def controlled(api: Api) -> Api:
    """As the operator makes them: owned by their jobs."""
    for obj in [one for found in api.objects.values() for one in found.values()]:
        for reference in obj["metadata"].get("ownerReferences") or ():
            if reference["kind"] == "X":
                reference["kind"], reference["name"] = "FournosJob", obj["metadata"]["name"]
    return api


def test_the_whole_queue_in_order_with_a_reason_for_each() -> None:
    result = Program(controlled(full()), env={"COLUMNS": "140"})("queue")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["PLACE", "NAMESPACE", "NAME", "OWNER", "PRIORITY", "FOR", "REASON"]
    assert [line.split()[:6] for line in lines[1:]] == [
        ["1", "bench", "job/build", "-", "5", "3m"],
        ["2", "bench", "one", "perf-team", "0", "2m"],
        ["3", "bench", "two", "me", "0", "1m"],
    ]
    assert [re.split(r"  +", line)[-1] for line in lines[1:]] == [
        "no room",
        "wants cluster-1 for itself; 1 job on it must end first.",
        "is held by its own spec.suspend.",
    ]


def test_for_programs_and_without_the_jobs() -> None:
    api = controlled(full())
    del api.objects[FOURNOS_JOB]
    found = json.loads(Program(api)("queue", "fournos-queue", "-o", "json").stdout)
    assert [(one["place"], one["kind"], one["name"], one["reason"]) for one in found] == [
        (1, "Job", "build", "no room"),
        (2, "FournosJob", "one", "no room"),
        (3, "FournosJob", "two", "no room"),
    ]


async def test_the_client_has_the_same() -> None:
    async with AsyncClient(api=controlled(full()), namespace=NS) as client:  # type: ignore[arg-type]
        assert [entry.name for entry in await client.queue()] == ["build", "one", "two"]


def test_an_empty_queue_and_one_that_is_not_there() -> None:
    empty = Program(world())("queue")
    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", "Nothing waits in fournos-queue.\n")
    missing = Program(Api())("queue", "gpu")
    assert missing.exit_code == 5
    assert "there is no LocalQueue gpu, which namespace bench does not have." in missing.stderr
    assert "kubectl apply" in missing.stderr
    api = Api()
    api.fails["*", LOCAL_QUEUE] = NoSuchResourceError("no kueue", status=404)
    assert "Kueue, which is not installed" in Program(api)("queue").stderr


@pytest.mark.parametrize("number", [1, 30])
def test_it_costs_the_same_for_any_length(number: int) -> None:
    api = world(
        *(job(f"job-{n}", "Pending") for n in range(number)), *(workload(f"job-{n}") for n in range(number))
    )
    calls = []
    listing = api.list

    async def counted(*arguments: object, **options: object) -> object:
        calls.append(arguments)
        return await listing(*arguments, **options)  # type: ignore[arg-type]

    api.list = counted  # type: ignore[assignment, method-assign]
    assert len(Program(controlled(api))("queue", "-o", "json").stdout) > 100 * number
    assert len(calls) == 7
