"""Open tabs: a change comes without a reload and disturbs nobody; a hidden tab asks less."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.hub import Hub
from tests.e2e.jobs.test_lifecycle import pipeline
from tests.e2e.web.conftest import CLUSTER, CLUSTERS, OpenTab
from tests.e2e.web.tab import Tab

ASKS = 5_000
"""Milliseconds between two questions of an open tab."""
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
CHOOSE = """() => {
  getSelection().selectAllChildren(document.getElementById("conditions-title"));
  scrollTo(0, 300);
}"""
DOING = """() => ({
  focus: document.activeElement.name,
  chosen: getSelection().toString(),
  scroll: scrollY,
  typed: [...document.querySelectorAll("main input")]
    .map((one) => one.type === "checkbox" ? one.checked : one.value),
  open: [...document.querySelectorAll("details[open]")].map((one) => one.id),
})"""

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
    tab.stays()
    row = tab.one("#job-timeline tr", has=tab.page.get_by_role("rowheader", name="second"))
    tab.until(lambda: row.count() and "Running" in row.inner_text(), "the second task does not appear")
    assert tab.stayed, "the page was loaded again"
    world.shutdown(name, "Terminate")


def test_a_change_leaves_what_a_person_is_doing(world: Hub, open_tab: OpenTab) -> None:
    """The focus, what is typed, a chosen text, an open question, and the place on the page."""
    tab = open_tab(f"/clusters/{CLUSTER}", phone=True)
    tab.stays()
    tab.one("input[name=owner]").fill("half a na")
    tab.offer("Drain").locator("input[name=stop]").check()
    tab.one("input[name=ttl]").fill("4h")
    tab.page.evaluate(CHOOSE)
    before = tab.page.evaluate(DOING)
    assert before["scroll"] > 0 and before["chosen"] and before["open"] == ["drain"], before
    condition = {"type": "Ready", "status": "False", "reason": "ChangedNow", "message": "",
                 "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
    patch = json.dumps({"status": {"conditions": [condition]}})
    words = ("patch", "fournoscluster", CLUSTER, "--subresource=status", "--type=merge", "-p", patch)
    world.kubectl("-n", CLUSTERS, *words)
    tab.until(lambda: "ChangedNow" in tab.text("#conditions"))
    assert tab.page.evaluate(DOING) == before
    assert tab.stayed


def test_a_hidden_tab_asks_less_and_at_once_when_it_is_seen(lock: Request, open_tab: OpenTab) -> None:
    tab = open_tab()
    tab.page.evaluate(HIDE, True)
    lock("fay")
    # A tab that is open shows that the change has arrived: the hidden one would have had it, too.
    other = open_tab()
    other.until(lambda: requested(other, "fay"))
    tab.page.wait_for_timeout(2 * ASKS)
    assert not requested(tab, "fay") and not tab.asked
    tab.page.evaluate(HIDE, False)
    tab.until(lambda: requested(tab, "fay"))


def test_nothing_is_sent_while_nothing_changes(open_tab: OpenTab) -> None:
    tab = open_tab(f"/clusters/{CLUSTER}")
    tab.until(lambda: len(tab.asked) >= 3)
    assert set(tab.asked[1:]) == {304}


def test_a_tab_says_that_it_is_cut_off_and_goes_on(lock: Request, open_tab: OpenTab) -> None:
    tab = open_tab()
    tab.expected = ("status of 503",)
    tab.page.route("**/", lambda route: route.fulfill(status=503))
    tab.until(lambda: "Reconnecting" in tab.text("#connection"))
    tab.page.unroute("**/")
    lock("jan")
    tab.until(lambda: requested(tab, "jan"))
    assert not tab.one("#connection").is_visible()
