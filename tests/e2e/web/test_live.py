"""Open tabs: a change comes without a reload, a hidden tab pauses, and many tabs share few streams."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.hub import Hub
from tests.e2e.jobs.test_lifecycle import pipeline
from tests.e2e.web.conftest import CLUSTER, CLUSTERS, OpenTab
from tests.e2e.web.tab import Tab

STREAMS = 4
"""Streams of one browser at most: HTTP/1.1 allows it six connections."""
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""

Request = Callable[[str], None]


@pytest.fixture
def lock(world: Hub) -> Iterator[Request]:
    """Requests the lock of a cluster for an owner, as kubectl does it: the page of the fleet shows it."""

    def request(owner: str | None) -> None:
        patch = json.dumps({"spec": {"owner": owner}})
        world.kubectl("-n", CLUSTERS, "patch", "fournoscluster", CLUSTER, "--type=merge", "-p", patch)

    yield request
    request(None)


def requested(tab: Tab, owner: str) -> bool:
    return f"Requested by {owner}" in tab.text(f"#cluster-{CLUSTER}")


def test_open_tabs_show_a_job_from_its_submission_to_its_end(world: Hub, open_tab: OpenTab) -> None:
    name = "web-live"
    jobs = open_tab("/jobs")
    queue, fleet = open_tab("/queue", beside=jobs), open_tab("/", beside=jobs)
    for tab in (jobs, queue, fleet):
        tab.until(lambda tab=tab: tab.streams, "the tab has no stream")
        tab.stays()
    world.submit(name, cluster="cluster-2", exclusive=True, owner="dee")
    for tab in (jobs, queue, fleet):
        tab.until(lambda tab=tab: name in tab.text(), f"{name} does not appear")
    job = open_tab(f"/jobs/{world.namespace}/{name}", beside=jobs)
    job.until(lambda: job.text("h1 .phase") == "Pending")
    job.stays()
    form = job.offer("Delete")
    world.shutdown(name, "Terminate")
    job.until(lambda: job.text("h1 .phase") == "Stopped", "the page of the job does not show the end")
    assert form.is_visible(), "a question that is open is closed by a change"
    assert job.one("details.confirm[open]").count() == 1, "another question is open, too"
    row = jobs.one("#jobs tr", has=jobs.page.get_by_role("link", name=name, exact=True))
    jobs.until(lambda: "Stopped" in row.inner_text(), "the list does not show the end")
    for tab in (queue, fleet):
        tab.until(lambda tab=tab: name not in tab.text(), f"{name} waits for ever")
    assert all(tab.stayed for tab in (jobs, queue, fleet, job)), "a page was loaded again"


def test_an_open_tab_shows_each_task_of_a_job_that_runs(world: Hub, open_tab: OpenTab) -> None:
    """Also the second one: the status of the job is the same while its tasks change."""
    second = pipeline("web-two-tasks", "while true; do sleep 1; done")
    (task,) = second["spec"]["tasks"]
    (first,) = pipeline("", "sleep 3")["spec"]["tasks"]
    second["spec"]["tasks"] = [
        {**first, "name": "first"},
        {**task, "name": "second", "runAfter": ["first"]},
    ]
    world.apply(second)
    name = world.submit("web-tasks", pipeline="web-two-tasks")
    tab = open_tab(f"/jobs/{world.namespace}/{name}")
    tab.until(lambda: tab.streams, "the tab has no stream")
    tab.stays()
    row = tab.one("#job-timeline tr", has=tab.page.get_by_role("rowheader", name="second"))
    tab.until(lambda: row.count() and "Running" in row.inner_text(), "the second task does not appear")
    assert tab.stayed, "the page was loaded again"
    world.shutdown(name, "Terminate")


def test_a_hidden_tab_pauses_and_resumes_where_it_was(lock: Request, open_tab: OpenTab) -> None:
    tab = open_tab()
    tab.until(lambda: tab.streams)
    lock("eve")
    tab.until(lambda: requested(tab, "eve"))
    with tab.page.expect_event("requestfailed", lambda request: "/live?" in request.url):
        tab.page.evaluate(HIDE, True)
    lock("fay")
    # A tab that is open shows that the change has arrived: the hidden one would have had it, too.
    other = open_tab()
    other.until(lambda: requested(other, "fay"))
    assert requested(tab, "eve") and len(tab.streams) == 1
    tab.page.evaluate(HIDE, False)
    tab.until(lambda: requested(tab, "fay"))
    _, resumed = tab.streams
    assert resumed.headers["last-event-id"]


def test_a_script_that_comes_late_costs_no_stream(lock: Request, open_tab: OpenTab) -> None:
    tab = open_tab("")
    tab.page.route("**/hx-sse.min.js", lambda route: (tab.page.wait_for_timeout(300), route.continue_()))
    tab.goto("/")
    lock("ian")
    tab.until(lambda: requested(tab, "ian"))
    assert len(tab.streams) == 1


def test_a_tab_whose_stream_is_refused_asks(lock: Request, open_tab: OpenTab) -> None:
    tab = open_tab("")
    tab.page.route("**/live?*", lambda route: route.fulfill(status=503, headers={"Retry-After": "5"}))
    tab.expected = ("status of 503",)
    tab.goto("/")
    lock("jan")
    tab.until(lambda: requested(tab, "jan"))


def test_eight_tabs_have_four_streams_and_all_show_a_change(lock: Request, open_tab: OpenTab) -> None:
    first = open_tab()
    tabs = [first, *(open_tab(beside=first) for _ in range(2 * STREAMS - 1))]
    first.until(lambda: sum(bool(tab.streams) for tab in tabs) == STREAMS)
    lock("gus")
    for tab in tabs:
        tab.until(lambda tab=tab: requested(tab, "gus"))
    assert [len(tab.streams) for tab in tabs].count(1) == STREAMS == sum(len(tab.streams) for tab in tabs)
    lock("hal")
    for tab in tabs:
        tab.until(lambda tab=tab: requested(tab, "hal"))
    # A tab that is closed leaves its stream to one that asks.
    holder = next(tab for tab in tabs if tab.streams)
    tabs.remove(holder)
    assert not holder.closed()
    late = open_tab(beside=first)
    late.until(lambda: sum(bool(tab.streams) for tab in (*tabs, late)) == STREAMS)


def test_a_hidden_tab_leaves_its_stream_to_a_visible_one(lock: Request, open_tab: OpenTab) -> None:
    first = open_tab()
    holders = [first, *(open_tab(beside=first) for _ in range(STREAMS - 1))]
    first.until(lambda: all(tab.streams for tab in holders))
    asks = open_tab(beside=first)
    first.page.evaluate(HIDE, True)
    asks.until(lambda: asks.streams, "the tab has no stream although a slot is free")
    first.page.evaluate(HIDE, False)
    lock("kim")
    for tab in (first, asks):
        tab.until(lambda tab=tab: requested(tab, "kim"))
    assert len(first.streams) == 1, "five tabs have a stream"
    # The one that asks goes on with its stream when there is a slot again.
    asks.page.evaluate(HIDE, True)
    first.until(lambda: len(first.streams) == 2)
    lock("lea")
    first.until(lambda: requested(first, "lea"))
