"""The board of a ClusterQueue: quota by flavor, what is short, and who waits."""

from __future__ import annotations

from decimal import Decimal

from fournos.engine.kube.resource import Key
from fournos.insight.queues import bars, board, ways
from tests.unit.cli.api import Api
from tests.unit.cli.objects import FLAVORS, NOW, NS, cluster_queue, job, local_queue, workload
from tests.unit.cli.test_explain import world
from tests.unit.cli.test_queue import controlled


def waiting(*names: str) -> Api:
    objects = [one for name in names for one in (job(name, "Pending"), workload(name, cluster="cluster-1"))]
    return controlled(world(*objects))


async def test_the_entries_are_a_part_of_the_queue_with_their_places() -> None:
    api = waiting("a", "b", "c", "d")
    found = await board(api, (Key(NS, "fournos-queue"),), NOW, first=2, most=2)
    assert found is not None
    assert [(one.place, one.name) for one in found.entries] == [(2, "b"), (3, "c")]
    assert found.pending == 4


async def test_a_queue_without_its_cluster_queue_has_no_board() -> None:
    api = Api(queues=[local_queue()])
    assert await board(api, (Key(NS, "fournos-queue"),), NOW) is None


async def test_local_queues_are_found_by_their_cluster_queue() -> None:
    (found,) = (await ways(world(), NS)).values()
    assert found == (Key(NS, "fournos-queue"),)


def test_a_bar_counts_the_workloads_that_find_too_little() -> None:
    slots = {"fournos/cluster-slot": (100, 0)}
    queue = cluster_queue(
        {
            "cluster-1": {"fournos/gpu-a100": (8, 7), **slots},
            "cluster-2": {"fournos/gpu-a100": (8, 8), **slots},
        }
    )
    found = bars(
        queue, tuple(FLAVORS), [workload("a", cluster="cluster-1"), workload("b", cluster="cluster-1")]
    )
    (one,) = [bar for bar in found if (bar.flavor, bar.resource) == ("cluster-1", "fournos/gpu-a100")]
    assert (one.used, one.nominal, one.free, one.short) == (Decimal(7), Decimal(8), Decimal(1), 2)
    others = {(bar.flavor, bar.resource): bar.short for bar in found if bar.flavor != "cluster-1"}
    assert others["cluster-2", "fournos/gpu-a100"] == 0 and not any(others.values())


def test_no_workload_waits_for_a_cluster_that_could_never_take_it() -> None:
    queue = cluster_queue(
        {
            "cluster-1": {"fournos/gpu-a100": (0, 0), "fournos/cluster-slot": (100, 100)},
            "cluster-2": {"fournos/gpu-a100": (8, 8), "fournos/cluster-slot": (100, 1)},
        }
    )
    found = bars(
        queue, tuple(FLAVORS), [workload("a", asks={"fournos/gpu-a100": "2", "fournos/cluster-slot": "1"})]
    )
    assert {(bar.flavor, bar.resource): bar.short for bar in found if bar.short} == {
        ("cluster-2", "fournos/gpu-a100"): 1
    }
