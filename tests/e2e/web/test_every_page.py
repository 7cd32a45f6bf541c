"""What holds for each page, without a test of its own.

The tests of a page share a tab, because a browser's context costs more than the page in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from fournos.web.pages.all_pages import PAGES
from tests.e2e.hub import Hub
from tests.e2e.web.conftest import BROKEN, CLUSTER, DONE, SCHEDULE, OpenTab
from tests.e2e.web.served import Served
from tests.e2e.web.tab import Tab

QUERIES = {"compare": f"?job={DONE}&job={BROKEN}"}
"""What a page is asked for that shows nothing without; by its name."""


def path_of(name: str, hub: Hub) -> str:
    """Returns the address of a page that has something to show."""
    (page,) = (page for page in PAGES if page.name == name)
    values = {"namespace": hub.namespace, "name": DONE}
    if name == "cluster":
        values["name"] = CLUSTER
    if name == "schedule":
        values["name"] = SCHEDULE
    if name == "kind":
        values |= {"kind": "PipelineRun", "name": hub.status(DONE)["pipelineRun"]}
    return page.path.format_map({key: quote(value) for key, value in values.items()}) + QUERIES.get(name, "")


@pytest.fixture(scope="module", params=[page.name for page in PAGES])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def page_tab(name: str, browser: Browser, local: Served) -> Iterator[Tab]:
    """A tab for one page, without errors at the end of its last test."""
    context = browser.new_context(storage_state=local.state)
    tab = Tab.open(context, local.base)
    yield tab
    problems = tab.closed()
    context.close()
    assert not problems, problems


def test_a_wide_window(name: str, world: Hub, page_tab: Tab) -> None:
    page_tab.is_wide()
    page_tab.goto(path_of(name, world))
    page_tab.is_accessible()
    page_tab.does_not_scroll_sideways()
    page_tab.does_not_jump()
    page_tab.paints_at_once()
    page_tab.shows_its_state_without_colours()
    assert page_tab.one("h1").count() == 1
    page_tab.works_by_keyboard()


def test_a_phone_in_the_dark(name: str, world: Hub, page_tab: Tab) -> None:
    page_tab.is_a_phone_in_the_dark()
    page_tab.goto(path_of(name, world))
    page_tab.is_accessible()
    page_tab.does_not_scroll_sideways()
    page_tab.does_not_jump()
    page_tab.reads_in_a_narrow_window()


def test_without_scripts_it_reads_the_same(name: str, world: Hub, page_tab: Tab) -> None:
    page_tab.is_wide()
    titles = page_tab.one("h1, h2, h3, th, dt")
    page_tab.goto(path_of(name, world))
    with_scripts = titles.all_inner_texts()
    with page_tab.without_scripts():
        page_tab.goto(path_of(name, world))
        assert titles.all_inner_texts() == with_scripts


def test_nothing_is_seen_of_a_page_that_is_not_whole_yet(world: Hub, open_tab: OpenTab) -> None:
    """The columns of its tables would move when the parser goes on."""
    main = (tab := open_tab("/jobs")).one("main")
    assert main.is_visible()
    tab.page.evaluate("document.getElementById('whole').remove()")
    assert main.is_hidden()
