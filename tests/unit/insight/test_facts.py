"""What is known once for all jobs of a queue: the line and the holders of clusters."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from fournos.engine.kube.resource import Key
from fournos.insight.facts import Line, WaitFacts, Waiting, in_line, queue_facts
from tests.unit.cli.objects import NS, ago, cluster_queue, job, local_queue, workload
from tests.unit.engine.kube.server import ScriptedServer

QUEUE = "fournos-queue"


def test_lines_of_several_queues_are_one() -> None:
    second = {**local_queue(), "metadata": {"name": "second", "namespace": NS}}
    other = workload("middle", created=ago(minutes=5))
    other["spec"]["queueName"] = "second"
    waiting = [workload("young", created=ago(minutes=1)), workload("old", created=ago(minutes=9)), other]
    queues = [local_queue(), second]
    assert [one.key.name for one in in_line(waiting, queues, "fournos-queue")] == ["old", "middle", "young"]
    assert [one.key.name for one in in_line(waiting, [second], "fournos-queue")] == ["middle"]


def test_who_is_ahead_stands_before_it_in_the_line() -> None:
    line = Line(Waiting(Key(NS, name), 0) for name in ("a", "b", "c"))
    facts = WaitFacts(job("x"), line=line)
    assert facts.ahead(workload("c")) == (f"{NS}/a", f"{NS}/b")
    assert facts.ahead(workload("a")) == ()
    assert facts.ahead(workload("gone")) is None
    assert replace(facts, ordered=False).ahead(workload("a")) is None


def test_holders_are_those_of_the_clusters() -> None:
    one = job("one", "Running", status={"cluster": "cluster-1"})
    two = job("two", "Running", status={"cluster": "cluster-2"})
    facts = WaitFacts(job("x"), holders=(one, two))
    assert facts.holders_on(()) == (one, two)
    assert facts.holders_on(("cluster-2",)) == (two,)


async def test_the_place_in_a_long_queue_is_its_own() -> None:
    """Kueue's visibility API has `limit` and `offset`, and no token of a next page."""
    names = [f"w-{number}" for number in range(1200)]

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/pendingworkloads"):
            first, most = int(request.query.get("offset", 0)), int(request.query.get("limit", 1000))
            items = [
                {"metadata": {"name": name, "namespace": NS}, "positionInClusterQueue": place}
                for place, name in list(enumerate(names))[first : first + most]
            ]
            return web.json_response({"metadata": {}, "items": items})
        if request.path.endswith(f"/localqueues/{QUEUE}"):
            return web.json_response(local_queue())
        if request.path.endswith("/clusterqueues/fournos-queue"):
            return web.json_response(cluster_queue())
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})

    async with ScriptedServer([answer]) as server, server.client() as client:
        facts = await queue_facts(client, job("x"), QUEUE)
    assert (len(facts.line), facts.ordered) == (1200, True)
    ahead = facts.ahead(workload("w-700"))
    assert ahead is not None and len(ahead) == 700
