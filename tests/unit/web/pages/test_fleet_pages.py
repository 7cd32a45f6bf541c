"""The pages Fleet, Cluster and Queue: what they show, and what their actions change."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.client.errors import HistoryUnavailableError
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import Resource
from fournos.history.estimates import Typical
from fournos.history.records import body
from fournos.history.regressions.benchmark import Benchmark
from fournos.insight.errors import FournosError
from fournos.web.errors import PageError
from fournos.web.pages import benchmarks, cluster, fleet, jobs, queue
from fournos.web.pages import job as job_page
from fournos.web.pages.benchmarks import RESOURCE
from fournos.web.site import Action, Done, Page
from tests.unit.cli.api import Api
from tests.unit.cli.objects import NOW, NS, ago, cluster_queue, job
from tests.unit.cli.objects import workload as workload_of
from tests.unit.cli.test_benchmarks import SILENT, WORST
from tests.unit.cli.test_explain import world
from tests.unit.insight.test_fleet import cluster as cluster_object
from tests.unit.insight.test_fleet import running
from tests.unit.insight.test_queues import waiting
from tests.unit.web.calls import ALL, READ_ONLY, Verbs, call, shown, text

HOSTILE = '"><script>alert(1)</script>'


def with_lock() -> Api:
    lock = {"state": "Held", "owner": "ben", "heldSince": ago(hours=1), "waiting": ["two", "three"]}
    one = cluster_object("cluster-1", ("a100", 8), spec={"owner": "ben"}, status={"lock": lock})
    return Api(with_metadata(one), running("one", 2))


def with_metadata(one: dict[str, object]) -> dict[str, object]:
    one["metadata"] |= {"uid": "uid-c", "resourceVersion": "5"}  # type: ignore[operator]
    one["spec"] = {"kubeconfigSecret": "kubeconfig-1", **one["spec"]}  # type: ignore[dict-item]
    return one


async def test_the_fleet_has_gpus_lock_and_jobs_of_each_cluster() -> None:
    found = text(await shown(fleet.PAGE, call(with_lock())))
    assert "1 cluster, 2 of 8 GPUs used, 1 running, 0 waiting" in found
    assert "Held by ben , without an end" in found
    assert "Nothing waits" in found


async def test_an_empty_fleet_teaches() -> None:
    found = text(await shown(fleet.PAGE, call(Api())))
    assert "No clusters yet" in found and "fournos submit --help" in found


async def test_a_fleet_without_hearth_has_the_clusters_of_the_quota() -> None:
    lock = job("lock", "Admitted", spec={"owner": "ann", "lockOnly": True}, status={"cluster": "cluster-2"})
    found = text(await shown(fleet.PAGE, call(world(lock))))
    assert "2 clusters, 2 of 16 GPUs used, 1 running" in found
    assert "cluster-2 Lock held" in found and "Held by ann , without an end" in found


async def test_a_cluster_of_the_quota_alone_has_a_page_without_actions() -> None:
    lock = job("lock", "Admitted", spec={"owner": "ann", "lockOnly": True}, status={"cluster": "cluster-2"})
    html = await shown(cluster.PAGE, call(world(lock), path={"name": "cluster-2"}))
    assert "<form" not in html and "Only Kueue's quota names this cluster" in text(html)
    assert "Held by ann" in text(html) and 'href="/jobs/' in html
    assert 'data-copy="fournos cluster list"' in html, "Hearth's commands do not know it"


async def test_markup_in_names_and_owners_is_text() -> None:
    one = job(HOSTILE, "Running", spec={"owner": HOSTILE}, status={"cluster": HOSTILE, "message": HOSTILE})
    html = await shown(fleet.PAGE, call(Api(one, cluster_object(HOSTILE))))
    assert "<script>" not in html and "&lt;script&gt;" in html


async def test_only_the_first_rows_are_shown_with_a_link_to_all() -> None:
    jobs = [job(f"job-{number:03}", "Pending", created=ago(minutes=number)) for number in range(130)]
    jobs[3:5] = [{**one, "spec": {**one["spec"], "suspend": True}} for one in jobs[3:5]]
    html = await shown(fleet.PAGE, call(Api(*jobs)))
    assert html.count('<tr id="waiting-') == fleet.ROWS
    assert '<a href="/queue">110 more</a>' in html
    assert "0 running, 128 waiting, 2 held" in text(html)


async def test_a_cluster_offers_what_the_person_may_do() -> None:
    path = {"name": "cluster-1"}
    html = await shown(cluster.PAGE, call(with_lock(), path=path))
    assert 'action="/clusters/cluster-1/unlock"' in html
    assert 'action="/clusters/cluster-1/lock"' not in html
    refused = await shown(cluster.PAGE, call(with_lock(), path=path, rights=READ_ONLY))
    assert "<form" not in refused and "You may not lock or drain this cluster." in refused


async def test_what_ends_a_lock_or_takes_no_more_jobs_asks_first() -> None:
    api = with_lock()
    html = await shown(cluster.PAGE, call(api, path={"name": "cluster-1"}))
    found = text(html)
    assert "ben loses the cluster. cluster-1 takes jobs of any owner again" in found
    assert "waiting for that: 2 jobs." in found
    assert "cluster-1 takes no more jobs. What runs there (1 job) ends by itself, or is shut down:" in found
    assert 'data-copy="fournos cluster unlock -n hearth cluster-1"' in html
    assert html.count('<details class="confirm"') == 2


async def test_the_jobs_that_wait_behind_a_lock_are_links() -> None:
    html = await shown(cluster.PAGE, call(with_lock(), path={"name": "cluster-1"}))
    assert '<a href="/jobs/bench/two">two</a>, <a href="/jobs/bench/three">three</a>.' in html


async def test_an_unknown_cluster_is_not_here() -> None:
    with pytest.raises(NotFoundError):
        await cluster.gather(call(Api(), path={"name": "gone"}))


def action(name: str) -> Action:
    (found,) = [one for one in cluster.ACTIONS if one.name == f"{name} cluster"]
    assert found.path == f"/clusters/{{name}}/{name}"
    return found


@pytest.mark.parametrize(
    ("name", "form", "spec"),
    [
        ("lock", {"owner": "ann", "ttl": "4h", "drain": ""}, {"owner": "ann", "ttl": "4h"}),
        (
            "lock",
            {"owner": "ann", "ttl": "", "drain": "stop"},
            {"owner": "ann", "ttl": None, "drain": "Stop"},
        ),
        ("drain", {}, {"drain": "Wait"}),
        ("drain", {"stop": "true"}, {"drain": "Stop"}),
        ("undrain", {}, {"drain": None}),
    ],
)
async def test_an_action_writes_and_leads_back(
    name: str, form: dict[str, str], spec: dict[str, object]
) -> None:
    api = Api(with_metadata(cluster_object("cluster-1")))
    done = await action(name).act(call(api, path={"name": "cluster-1"}), form)
    assert isinstance(done, Done) and done.location == "/clusters/cluster-1"
    ((_, key, body),) = api.writes
    assert (key, body["spec"]) == ("hearth/cluster-1", spec)


async def test_an_unlock_takes_the_owner_away() -> None:
    api = with_lock()
    await action("unlock").act(call(api, path={"name": "cluster-1"}), {})
    ((_, _, body),) = api.writes
    assert body["spec"]["owner"] == ""


async def test_a_cluster_of_another_owner_is_not_locked() -> None:
    api = with_lock()
    with pytest.raises(FournosError, match="is locked for ben"):
        await action("lock").act(call(api, path={"name": "cluster-1"}), {"owner": "ann"})
    assert not api.writes


async def test_the_queue_shows_places_reasons_and_quota() -> None:
    html = await shown(queue.PAGE, call(waiting("a", "b")))
    found = text(html)
    assert "2 waiting, short of fournos/cluster-slot in cluster-1" in found
    assert "100 of 100 used, 2 wait" in found.replace(" ,", ",")
    assert html.index('id="entry-bench/FournosJob/a"') < html.index('id="entry-bench/FournosJob/b"')


async def test_the_queue_has_a_column_of_starts_when_one_is_known() -> None:
    def estimated(known: bool) -> Api:
        one = Typical("b", "bench", "uid-b", None, 1800.0 if known else None, 4)
        api = waiting("a", "b")
        api.stored[f"/apis/history.fournos.dev/v1/namespaces/{NS}/estimates"] = body([one], list[Typical])
        return api

    assert (
        "Starts" in (known := text(await shown(queue.PAGE, call(estimated(True))))) and "in about 1h" in known
    )
    assert "Starts" not in text(await shown(queue.PAGE, call(estimated(False))))


async def test_the_queue_promises_no_start_of_what_is_kept_whatever_its_place() -> None:
    """A lock's end is said in its place; of a queue that is stopped nothing is known."""
    ends = (NOW + timedelta(hours=2)).isoformat()
    asks, full = {"fournos/cluster-slot": "1"}, {"cluster-1": {"fournos/cluster-slot": (100, 100)}}
    stopped = cluster_queue(full, spec={"stopPolicy": "Hold"})
    for above, reason in ((cluster_queue(full), "cluster-1 is locked for 2h more"), (stopped, "is stopped")):
        waits = job("one", "Pending", spec={"cluster": "cluster-1"})
        api = world(waits, workload_of("one", asks=asks, cluster="cluster-1"), queue=above)
        locked = {"metadata": {"name": "cluster-1", "namespace": "hearth"}, "status": {"lockExpiresAt": ends}}
        api.add(FOURNOS_CLUSTER, locked)
        typical = Typical("one", NS, "uid-one", None, 1800.0, 4)
        api.stored = {
            f"/apis/history.fournos.dev/v1/namespaces/{NS}/estimates": body([typical], list[Typical]),
            f"/apis/history.fournos.dev/v1/namespaces/{NS}/estimates/uid-one": body(typical, Typical),
        }
        listed = text(await shown(queue.PAGE, call(api)))
        assert reason in listed and "in about" not in listed
        its_page = text(await shown(job_page.PAGE, call(api, path={"namespace": NS, "name": "one"})))
        assert reason in its_page and "it starts in about" not in its_page


@pytest.mark.parametrize("first", ["2", "٣", "-1", "x", "99999999999999"])
async def test_a_part_of_the_queue(first: str) -> None:
    html = await shown(queue.PAGE, call(waiting("a", "b"), query={"from": first}))
    assert ('id="entry-bench/FournosJob/a"' in html) == (first != "2")


async def test_a_queue_that_nothing_leads_to_is_not_here() -> None:
    with pytest.raises(PageError, match="leads to other"):
        await queue.gather(call(waiting("a"), query={"queue": "other"}))


async def test_without_a_queue_the_page_teaches() -> None:
    assert "No queue yet" in text(await shown(queue.PAGE, call(Api())))


# --- open regressions ---------------------------------------------------------------------------


def measured(*rows: Benchmark) -> Api:
    api = with_lock()
    path = f"/apis/history.fournos.dev/v1/namespaces/{NS}/benchmarks?days=84"
    api.stored = {path: body(list(rows), list[Benchmark])}
    return api


async def test_the_fleet_begins_with_open_regressions() -> None:
    html = await shown(fleet.PAGE, call(measured(WORST, SILENT)))
    found = text(html)
    assert "1 open regression Regression throughput of tuesday -19.8%" in found
    assert "began with nightly-30" in found and 'href="/benchmarks?show=failing"' in html
    assert "open regression" not in text(await shown(fleet.PAGE, call(measured(SILENT))))


async def test_further_regressions_are_counted() -> None:
    many = [replace(WORST, run=replace(WORST.run, name=f"night-{n}")) for n in range(fleet.REGRESSIONS + 2)]
    assert "2 more" in text(await shown(fleet.PAGE, call(measured(*many))))


async def test_the_fleet_waits_for_no_history() -> None:
    api = with_lock()
    asked = call(api)
    for _ in range(3):
        assert "1 cluster" in text(await shown(fleet.PAGE, asked))
    assert len([path for _, path in api.raw_requests if "benchmarks" in path]) == 1, (
        "it is not asked each time"
    )


async def test_regressions_stay_while_the_history_is_away_or_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an outage each read took longer than the page waits, and it showed none for minutes."""
    api = measured(WORST)
    asked, answer = call(api), api.raw

    async def shown_again() -> str:
        asked.site.memo._entries.clear()  # as after half a minute
        return text(await shown(fleet.PAGE, asked))

    assert "1 open regression" in await shown_again()

    async def away(*_: Any, **__: Any) -> bytes:
        raise HistoryUnavailableError("its database does not answer", status=503)

    api.raw = away  # type: ignore[method-assign]
    found = await shown_again()
    assert "1 open regression" in found
    assert "Open regressions cannot be shown: the API of the history does not answer" in found

    async def slow(method: str, path: str, *_: Any, **__: Any) -> bytes:
        await asyncio.sleep(0.05)
        return await answer(method, path)

    api.raw = slow  # type: ignore[method-assign]
    monkeypatch.setattr(benchmarks, "_PATIENCE", 0.01)
    found = await shown_again()
    assert "1 open regression" in found and "the history has not answered yet" in found
    fresh = call(api)
    assert "the history has not answered yet" in text(await shown(fleet.PAGE, fresh))
    await asyncio.sleep(0.1)
    assert "1 open regression" in text(await shown(fleet.PAGE, fresh)), "the late answer is not lost"


async def test_regressions_are_shown_to_those_who_may_list_benchmarks() -> None:
    """The site is of one namespace, and keeps what it has read for the first person."""
    asked = call(measured(WORST))
    assert "1 open regression" in text(await shown(fleet.PAGE, asked))

    class NoHistory(Verbs):
        async def may(self, verb: str, resource: Resource, namespace: str = "", **_: str) -> bool:
            return resource != RESOURCE

    refused = call(with_lock(), rights=NoHistory(ALL.verbs))
    other = replace(refused, site=asked.site)
    assert "open regression" not in text(await shown(fleet.PAGE, other))


# --- A list of a hundred objects whose texts have a megabyte each is a page of ordinary size ---------

MEGABYTE = "x" * 2**20
CROWD = 100
MOST = 1_000_000
"""Characters of the page of a hundred rows."""


def crowded() -> Api:
    texts = {"owner": MEGABYTE, "displayName": MEGABYTE, "hardware": {"gpuType": MEGABYTE, "gpuCount": 1}}
    status = {"cluster": "cluster-1", "message": MEGABYTE}
    running = [job(f"run-{number}", "Running", spec=texts, status=status) for number in range(CROWD)]
    waiting = [
        job(f"wait-{number}", "Pending", spec=texts, status={"message": MEGABYTE}) for number in range(CROWD)
    ]
    lock = {"state": "Held", "owner": MEGABYTE, "behind": [MEGABYTE], "waiting": [MEGABYTE]}
    held = cluster_object("cluster-1", ("a100", 8), spec={"owner": MEGABYTE}, status={"lock": lock})
    held["status"]["connection"] = {"error": MEGABYTE}
    return world(*running, *waiting, workload_of("wait-1", cluster="cluster-1"), with_metadata(held))


@pytest.mark.parametrize(
    ("page", "path"),
    [(fleet.PAGE, {}), (cluster.PAGE, {"name": "cluster-1"}), (queue.PAGE, {}), (jobs.PAGE, {})],
    ids=["fleet", "cluster", "queue", "jobs"],
)
async def test_rows_are_cut(page: Page, path: dict[str, str]) -> None:
    html = await shown(page, call(crowded(), path=path))
    assert len(html) < MOST
    assert "xxx…" in html
