"""Who looks: persons with different rights, a right that is withdrawn, forged requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.e2e.hub import Hub
from tests.e2e.web.conftest import BROKEN, CLUSTER, DONE, RUNS, OpenTab
from tests.e2e.web.people import ELSEWHERE, PEOPLE, Shared, shared
from tests.e2e.web.served import Served
from tests.e2e.web.tab import Tab

__all__ = ["shared"]
pytestmark = pytest.mark.usefixtures("left")
SECURE = {"ignore_https_errors": True}


@pytest.fixture(scope="module")
def left(shared: Shared, browser: Browser) -> Iterator[Tab]:
    """A job's page in an open tab of a person whose right is withdrawn then; permissions are cached."""
    context = shared.context(browser, extra_http_headers=shared.as_person("cleo").headers)
    tab = Tab.open(context, shared.base)
    tab.goto(f"/jobs/{shared.hub.namespace}/{RUNS}")
    shared.withdraw("cleo")
    yield tab
    context.close()


@pytest.fixture(scope="module")
def ann(shared: Shared) -> Served:
    return shared.as_person("ann")


def test_each_person_sees_rows_and_buttons_of_their_rights(
    world: Hub, shared: Shared, ann: Served, open_tab: OpenTab
) -> None:
    first = open_tab("/jobs", served=ann, **SECURE)
    second = open_tab("/jobs", served=shared.as_person("ben"), **SECURE)
    second.expected = ("status of 403",)
    assert DONE in first.text("#jobs") and ELSEWHERE not in first.text("#jobs")
    assert ELSEWHERE in second.text("#jobs") and DONE not in second.text("#jobs")
    assert "cannot" not in first.text("#jobs-notes")
    assert f'in the namespace "{PEOPLE}"' in second.text("#jobs-notes"), "where it may not read the history"

    # The history of one namespace, for a person who may read no other one.
    first.goto("/usage")
    assert "not counted" not in first.text("header.title")
    first.goto(f"/compare?job={DONE}&job={BROKEN}")
    assert "What differs" in first.text()
    first.goto(f"/trends/{world.namespace}/{DONE}")
    assert DONE in first.text("main")

    first.goto(f"/jobs/{world.namespace}/{RUNS}")
    assert {"Stop", "Stop now", "Delete"} <= set(first.one("#job-actions summary").all_inner_texts())
    second.goto(f"/jobs/{PEOPLE}/{ELSEWHERE}")
    assert second.one("#job-actions summary").count() == 0
    assert "You may not read" in second.text("#job-timeline")
    second.is_accessible()
    second.goto(f"/jobs/{world.namespace}/{RUNS}", status=403)
    assert second.text("h1") == "You may not see this"
    second.is_accessible()

    first.goto(f"/clusters/{CLUSTER}")
    assert first.page.get_by_role("button", name="Lock", exact=True).is_visible()
    second.goto(f"/clusters/{CLUSTER}", status=403)
    second.goto("/submit")
    assert second.page.get_by_role("button", name="Submit").count() == 0


def test_a_form_of_another_site_does_nothing(
    world: Hub, shared: Shared, ann: Served, open_tab: OpenTab
) -> None:
    path = f"/jobs/{world.namespace}/{RUNS}"
    tab = open_tab(path, served=ann, **SECURE)
    tab.expected = ("status of 403",)
    evil = f'<form method="post" action="{shared.base}{path}/stop"><button>You have won</button></form>'
    tab.page.route(
        "https://evil.example/**", lambda route: route.fulfill(body=evil, content_type="text/html")
    )
    tab.page.goto("https://evil.example/")
    tab.press("You have won")
    assert "a page of another site" in tab.text()
    assert "shutdown" not in world.get("fournosjob", RUNS)["spec"]


def test_a_name_that_leads_to_this_machine_is_not_answered(local: Served, open_tab: OpenTab) -> None:
    tab = open_tab()
    tab.expected = ("status of 421", "Refused to")
    port = local.base.rpartition(":")[2]
    # Chromium resolves each name below localhost to 127.0.0.1, as a hostile name server would.
    response = tab.page.goto(f"http://rebound.localhost:{port}/jobs")
    assert response is not None and response.status == 421 and DONE not in tab.text("body")


def test_a_right_that_is_withdrawn_takes_the_data_from_an_open_tab(left: Tab, world: Hub) -> None:
    def changed() -> bool:
        world.run("annotate", "--overwrite", "fournosjob", RUNS, f"e2e/look={changes.pop()}")
        left.page.wait_for_timeout(1000)
        return "You may not see this" in left.text()

    changes = list(range(1000))
    left.until(changed, "the tab keeps what it may not show")
    assert RUNS not in left.text("h1") and left.one(".phase").count() == 0
    left.expected = ("status of 403",)
    left.goto(f"/jobs/{world.namespace}/{RUNS}", status=403)
    assert not left.closed()
