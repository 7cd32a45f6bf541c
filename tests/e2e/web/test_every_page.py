"""What holds for each page, without a test of its own."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from fournos.web.pages.all_pages import PAGES
from tests.e2e.hub import Hub
from tests.e2e.web.conftest import BROKEN, CLUSTER, DONE, OpenTab

QUERIES = {"compare": f"?job={DONE}&job={BROKEN}"}
"""What a page is asked for that shows nothing without; by its name."""

pages = pytest.mark.parametrize("name", [page.name for page in PAGES])


def path_of(name: str, hub: Hub) -> str:
    """Returns the address of a page that has something to show."""
    (page,) = (page for page in PAGES if page.name == name)
    values = {"namespace": hub.namespace, "name": DONE}
    if name == "cluster":
        values["name"] = CLUSTER
    if name == "kind":
        values |= {"kind": "PipelineRun", "name": hub.status(DONE)["pipelineRun"]}
    return page.path.format_map({key: quote(value) for key, value in values.items()}) + QUERIES.get(name, "")


@pages
def test_a_wide_window(name: str, world: Hub, open_tab: OpenTab) -> None:
    tab = open_tab(path_of(name, world))
    tab.is_accessible()
    tab.does_not_scroll_sideways()
    tab.does_not_jump()
    tab.paints_at_once()
    tab.shows_its_state_without_colours()
    assert tab.one("h1").count() == 1
    tab.works_by_keyboard()


@pages
def test_a_phone_in_the_dark(name: str, world: Hub, open_tab: OpenTab) -> None:
    tab = open_tab(path_of(name, world), phone=True, color_scheme="dark", has_touch=True)
    tab.is_accessible()
    tab.does_not_scroll_sideways()
    tab.does_not_jump()
    tab.reads_in_a_narrow_window()


@pages
def test_without_scripts_it_reads_the_same(name: str, world: Hub, open_tab: OpenTab) -> None:
    with_scripts = open_tab(path_of(name, world))
    without = open_tab(path_of(name, world), java_script_enabled=False)
    titles = "h1, h2, h3, th, dt"
    assert without.one(titles).all_inner_texts() == with_scripts.one(titles).all_inner_texts()
